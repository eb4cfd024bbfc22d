"""Follows a peer's task until it ends or pauses, even if the peer restarts and resumes the task.

A message is repeated only with the same id, and only before the peer has answered: the peer may have received it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import httpx
from a2a.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, GetTaskRequest, SendMessageRequest, StreamResponse, Task, TaskState

from fleetwright_agent.tools.peers.authorization import TaskAuthorization
from fleetwright_agent.tools.peers.failures import causes_of, is_disconnected, status_of
from fleetwright_agent.tools.peers.response import PeerResponse
from fleetwright_agent.tools.peers.retries import RequestRetries, Sleep
from fleetwright_agent.tools.port import ToolError

ENDED: Final = {TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_REJECTED}
_OVER: Final = {*ENDED, TaskState.TASK_STATE_COMPLETED}
GOES_ON: Final = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}
_LOOK_SECONDS: Final = 1.0
_REVIEWED_LOOKS: Final = 5
"""The factor that multiplies the interval while people decide."""
_AWAY_SECONDS: Final = 90.0
"""The time for which a peer may be unreachable, for example while its pod is replaced."""
_RENEWAL_SECONDS: Final = 2.0
"""The time limit for authorizing a cancellation. After it, the previous headers are used."""
_GIVE_UP_SECONDS: Final = 4.0
"""The time limit for cancelling a task, including its authorization. The cleanup of a cancelled turn has 5 seconds."""
_NO_POD: Final = (502, 503, 504)
"""The statuses with which the gateway answers while the peer has no pod that serves."""


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
) -> PeerResponse:
    """Send the request and follow its task. If this call fails or is cancelled, cancel the task.

    A task that waits for an approval is cancelled too, unless other people decide about it.

    Args: `look` is the interval of polling after the end of the stream. `away` is the time for which a peer may be
    unreachable. Both are in seconds. `begun` is awaited with the id of the task, once the peer has sent an event of it.
    `retries` repeats the message; without them it is sent once. `sleep` waits between the polls. `authorization` has
    the headers of the message, and renews them for all later requests.
    """
    heard = PeerResponse(request.message.task_id)
    ended = False
    try:
        listen = partial(_listen, client, request, authorization, heard, begun)
        await (listen() if retries is None else retries.run(listen, may_repeat=lambda: not heard.has_begun))
        while heard.task_id and (heard.state in GOES_ON or heard.is_reviewed):
            await sleep(_REVIEWED_LOOKS * look if heard.is_reviewed else look)
            found = await _found(client, authorization, heard.task_id, look=look, away=away, sleep=sleep)
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


async def _found(
    client: Client, authorization: TaskAuthorization, task_id: str, *, look: float, away: float, sleep: Sleep
) -> Task:
    """Return the task, as the peer knows it.

    Raises:
        httpx.HTTPError, A2AClientError, A2AError: The task does not exist, or the peer stayed unreachable.
        ToolError: The peer refused the headers, and this agent gets no others.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + away
    request = GetTaskRequest(id=task_id, history_length=0)
    while True:
        try:
            return await authorization.run(lambda context: client.get_task(request, context=context))
        except (httpx.HTTPError, A2AClientError) as error:
            if not _is_away(error) or loop.time() >= until:
                raise
        await sleep(look)


def _is_away(error: BaseException) -> bool:
    """Return True if the connection failed, or if the gateway has no pod to forward to; False for all other errors."""
    return is_disconnected(error) or any(status_of(each) in _NO_POD for each in causes_of(error))
