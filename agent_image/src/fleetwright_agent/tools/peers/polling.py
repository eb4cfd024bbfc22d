"""Follows a peer's task until it ends or pauses, even if the peer restarts and resumes the task.

The message is sent only once, because a peer that did not answer may have received it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

import httpx
from a2a.client import Client, ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, GetTaskRequest, SendMessageRequest, StreamResponse, Task, TaskState

from fleetwright_a2a.outbound.bounded_responses import TooLarge
from fleetwright_a2a.outbound.pinned_http import DeniedAddress
from fleetwright_agent.tools.peers.response import PeerResponse

ENDED: Final = {TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_REJECTED}
_OVER: Final = {*ENDED, TaskState.TASK_STATE_COMPLETED}
GOES_ON: Final = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}
_LOOK_SECONDS: Final = 1.0
_REVIEWED_LOOKS: Final = 5
"""The factor that multiplies the interval while people decide."""
_AWAY_SECONDS: Final = 90.0
"""The time for which a peer may be unreachable, for example while its pod is replaced."""
_GIVE_UP_SECONDS: Final = 2.0
_NO_POD: Final = (502, 503, 504)
"""The statuses with which the gateway answers while the peer has no pod that serves."""


async def poll_task(
    client: Client,
    request: SendMessageRequest,
    context: ClientCallContext,
    *,
    look: float = _LOOK_SECONDS,
    away: float = _AWAY_SECONDS,
    begun: Callable[[str], None] = lambda _: None,
) -> PeerResponse:
    """Send the request and follow its task. If this call fails or is cancelled, cancel the task.

    A task that waits for an approval is cancelled too, unless other people decide about it.

    Args: `look` is the interval of polling after the end of the stream. `away` is the time for which a peer may be
    unreachable. Both are in seconds. `begun` is called with the id of a new task, once the peer has begun it.
    """
    heard = PeerResponse(request.message.task_id)
    ended = False
    try:
        await _listen(client, request, context, heard, begun)
        while heard.task_id and (heard.state in GOES_ON or heard.is_reviewed):
            await asyncio.sleep(_REVIEWED_LOOKS * look if heard.is_reviewed else look)
            heard.take(StreamResponse(task=await _found(client, context, heard.task_id, look=look, away=away)))
        ended = True
    finally:
        if heard.task_id and heard.state not in _OVER and not (ended and asks(heard)):
            await cancel(client, context, heard.task_id)
    return heard


def asks(heard: PeerResponse) -> bool:
    """Return whether the peer waits for an answer that an agent may give."""
    return heard.state == TaskState.TASK_STATE_INPUT_REQUIRED and not heard.wants_approval


async def cancel(client: Client, context: ClientCallContext, task_id: str) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(_GIVE_UP_SECONDS):
            await client.cancel_task(CancelTaskRequest(id=task_id), context=context)


async def _listen(
    client: Client,
    request: SendMessageRequest,
    context: ClientCallContext,
    heard: PeerResponse,
    begun: Callable[[str], None],
) -> None:
    """Read the stream to its end. The stream may end before the task does."""
    try:
        async for event in client.send_message(request, context=context):
            known = heard.task_id
            heard.take(event)
            if heard.task_id and not known:
                begun(heard.task_id)
    except (httpx.HTTPError, A2AClientError) as error:
        if not (heard.task_id and heard.state in GOES_ON and _is_away(error)):
            raise


async def _found(client: Client, context: ClientCallContext, task_id: str, *, look: float, away: float) -> Task:
    """Raises: httpx.HTTPError, A2AClientError, A2AError: The task does not exist, or the peer stayed unreachable."""
    loop = asyncio.get_running_loop()
    until = loop.time() + away
    while True:
        try:
            return await client.get_task(GetTaskRequest(id=task_id, history_length=0), context=context)
        except (httpx.HTTPError, A2AClientError) as error:
            if not _is_away(error) or loop.time() >= until:
                raise
        await asyncio.sleep(look)


def _is_away(error: BaseException) -> bool:
    """Return True if the connection failed, or if the gateway has no pod to forward to; False for all other errors."""
    causes = list(causes_of(error))
    refused = any(isinstance(each, TooLarge | DeniedAddress) for each in causes)
    return not refused and any(
        isinstance(each, httpx.NetworkError | httpx.RemoteProtocolError) or status_of(each) in _NO_POD
        for each in causes
    )


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that an error is about, without its causes; None if it is about none."""
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
