"""Follows a peer's task until it ends or pauses, even if the peer restarts and resumes the task.

A message is repeated only with the same id, and only before the peer has answered: the peer may have received it.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import httpx
from a2a.client import Client, ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, GetTaskRequest, SendMessageRequest, StreamResponse, Task, TaskState

from fleetwright_agent.tools.peers.authorization import TaskAuthorization
from fleetwright_agent.tools.peers.failures import PrincipalNotAccepted, causes_of, is_disconnected, status_of
from fleetwright_agent.tools.peers.response import PeerResponse
from fleetwright_agent.tools.peers.retries import RequestRetries, Sleep, retry_after
from fleetwright_agent.tools.port import ToolError

ENDED: Final = {TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_REJECTED}
_OVER: Final = {*ENDED, TaskState.TASK_STATE_COMPLETED}
GOES_ON: Final = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}
_LOOK_SECONDS: Final = 1.0
_REVIEWED_LOOKS: Final = 5
"""The factor that multiplies the interval while people decide."""
_AWAY_SECONDS: Final = 90.0
"""The time for which a peer may be unreachable, for example while its pod is replaced."""
_POLL_SECONDS: Final = 20.0
"""The time limit of one poll. Several polls must fit into the time for which a peer may be unreachable."""
_RENEWAL_SECONDS: Final = 2.0
"""The time limit for authorizing a cancellation. After it, the previous headers are used."""
_GIVE_UP_SECONDS: Final = 4.0
"""The time limit for cancelling a task, including its authorization. The cleanup of a cancelled turn has 5 seconds."""
_AWAY: Final = (429, 502, 503, 504)
"""The statuses of too many requests, and those of the gateway while the peer has no pod that serves."""


async def poll_task(
    client: Client,
    request: SendMessageRequest,
    authorization: TaskAuthorization,
    *,
    look: float = _LOOK_SECONDS,
    away: float = _AWAY_SECONDS,
    begun: Callable[[str], Awaitable[None]] | None = None,
    retries: RequestRetries | None = None,
    sleep: Sleep = asyncio.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> PeerResponse:
    """Send the request and follow its task. If this call fails or is cancelled, cancel the task.

    A task that waits for an approval is cancelled too, unless other people decide about it.

    Args: `look` is the interval of polling after the end of the stream. `away` is the time for which a peer may be
    unreachable or busy. Both are in seconds. `begun` is awaited with the id of the task, once the peer has sent an
    event of it. `retries` repeats the message; without them it is sent once. `sleep` waits between the polls.
    `monotonic` returns seconds that never go back. `authorization` has the headers of the message, and renews them for
    all later requests.
    """
    heard = PeerResponse(request.message.task_id)
    ended = False
    try:
        listen = partial(_listen, client, request, authorization, heard, begun)
        await (listen() if retries is None else retries.run(listen, may_repeat=lambda: not heard.has_begun))
        while heard.task_id and (heard.state in GOES_ON or heard.is_reviewed):
            await sleep(_REVIEWED_LOOKS * look if heard.is_reviewed else look)
            poll = partial(_poll, client, authorization, heard.task_id)
            found = await _found(poll, look=look, away=away, sleep=sleep, monotonic=monotonic)
            heard.take(StreamResponse(task=found))
        ended = True
    finally:
        if heard.task_id and heard.state not in _OVER and not (ended and asks(heard)):
            await cancel(client, authorization, heard.task_id)
    return heard


def asks(heard: PeerResponse) -> bool:
    """Return whether the peer waits for an answer that an agent may give."""
    return heard.state == TaskState.TASK_STATE_INPUT_REQUIRED and not heard.wants_approval


def outcome(peer: str, heard: PeerResponse) -> str:
    """Return the answer or the question of a peer. Raises: ToolError: The peer gave neither."""
    if heard.state in ENDED:
        raise ToolError(f"{peer} ended without an answer: {heard.sentence or 'it gave no reason'}")
    if heard.wants_approval:
        raise ToolError(
            f"{peer} did not go on without the approval of a person, which no agent gives: {heard.sentence} "
            "Say so in your answer"
        )
    if asks(heard):
        return (
            f"{peer} asks before it goes on: {heard.sentence}\nIt waits until the end of this turn. To answer, "
            f'call this tool again with task_id "{heard.task_id}" and the answer as message'
        )
    if heard.state != TaskState.TASK_STATE_COMPLETED:
        raise ToolError(f"{peer} stopped answering before it was done")
    return heard.answer or f"{peer} has completed the task without text."


async def cancel(client: Client, authorization: TaskAuthorization, task_id: str) -> None:
    request = CancelTaskRequest(id=task_id)
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await authorization.run(
                lambda context: client.cancel_task(request, context=context), renewal_seconds=_RENEWAL_SECONDS
            )


async def _listen(
    client: Client,
    request: SendMessageRequest,
    authorization: TaskAuthorization,
    heard: PeerResponse,
    begun: Callable[[str], Awaitable[None]] | None,
) -> None:
    """Read the stream to its end. The stream may end before the task does."""
    try:
        async for event in client.send_message(request, context=authorization.newest):
            is_known = bool(heard.task_id) and heard.has_begun
            heard.take(event)
            if heard.task_id and not is_known and begun is not None:
                await begun(heard.task_id)
    except (httpx.HTTPError, A2AClientError) as error:
        if not (heard.task_id and heard.state in GOES_ON and _is_away(error)):
            raise


async def _poll(client: Client, authorization: TaskAuthorization, task_id: str) -> Task:
    request = GetTaskRequest(id=task_id, history_length=0)

    async def get_task(context: ClientCallContext) -> Task:
        bounded = ClientCallContext(service_parameters=context.service_parameters, timeout=_POLL_SECONDS)
        return await client.get_task(request, context=bounded)

    return await authorization.run(get_task)


async def _found(
    poll: Callable[[], Awaitable[Task]], *, look: float, away: float, sleep: Sleep, monotonic: Callable[[], float]
) -> Task:
    """Return the task, as the peer knows it.

    Raises:
        httpx.HTTPError, A2AClientError, A2AError: The task does not exist, or the peer stayed unreachable.
        ToolError: The peer refused the headers, and this agent gets no others.
    """
    until = monotonic() + away
    while True:
        try:
            return await poll()
        except (httpx.HTTPError, A2AClientError) as error:
            left = until - monotonic()
            if not _is_away(error) or left <= 0:
                raise
            wait = max(look, min(_requested_wait(error), left))
        await sleep(wait)


def _is_away(error: BaseException) -> bool:
    """Return True if the failure is temporary: no connection, no answer in time, too many requests, or no pod.

    A peer that has begun a task for a principal accepted its token. If it does not any more, it cannot read its keys at
    the moment.
    """
    causes = list(causes_of(error))
    return (
        is_disconnected(error)
        or any(isinstance(each, httpx.TimeoutException | PrincipalNotAccepted) for each in causes)
        or any(status_of(each) in _AWAY for each in causes)
    )


def _requested_wait(error: BaseException) -> float:
    """Return the seconds that a response to too many requests asks to wait, or 0."""
    for each in causes_of(error):
        if isinstance(each, httpx.HTTPStatusError) and each.response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return retry_after(each.response) or 0
    return 0
