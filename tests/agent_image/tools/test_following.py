"""A peer that restarts during a task: the caller polls until the task resumes, and sends no message again."""

from collections.abc import AsyncIterator

import httpx
import pytest
from a2a.client import ClientCallContext
from a2a.client.errors import A2AClientError
from a2a.types import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)

from fleetwright_a2a.outbound.bounded_responses import TooLarge
from fleetwright_agent.tools.peers.authorization import TaskAuthorization
from fleetwright_agent.tools.peers.failures import PrincipalNotAccepted
from fleetwright_agent.tools.peers.polling import poll_task

WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
SAID = SendMessageRequest(message=Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="Cook.")]))


def gone() -> Exception:
    """Return the exception of the SDK's client for a lost connection."""
    error = A2AClientError("network")
    error.__cause__ = httpx.ConnectError("nobody listens")
    return error


async def no_headers() -> dict[str, str]:
    return {}


def authorization() -> TaskAuthorization:
    return TaskAuthorization(ClientCallContext(), no_headers)


class Peer:
    """A peer whose stream ends or breaks after its first events, and which then answers polls from a script."""

    def __init__(self, *looks: Task | Exception, breaks: Exception | None = None, began: bool = True) -> None:
        self._looks = list(looks)
        self._breaks = breaks
        self._began = began
        self.sent, self.cancelled = 0, 0
        self.contexts: list[ClientCallContext] = []

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext
    ) -> AsyncIterator[StreamResponse]:
        self.sent += 1
        if self._began:
            yield StreamResponse(task=Task(id="t", status=TaskStatus(state=WORKING)))
        if self._breaks:
            raise self._breaks

    async def get_task(self, request: GetTaskRequest, *, context: ClientCallContext) -> Task:
        self.contexts.append(context)
        look = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if isinstance(look, Exception):
            raise look
        return look

    async def cancel_task(self, request: CancelTaskRequest, *, context: ClientCallContext) -> Task:
        self.cancelled += 1
        return Task(id="t")


def cooked(state: TaskState = COMPLETED) -> Task:
    dish = Artifact(artifact_id="a", parts=[Part(text="Soup.")])
    return Task(id="t", status=TaskStatus(state=state), artifacts=[dish])


REQUEST = httpx.Request("POST", "http://gateway/agents/n/cook/a2a")


def wrapped(cause: Exception) -> A2AClientError:
    """Return the error of the SDK for a cause."""
    error = A2AClientError("the request failed")
    error.__cause__ = cause
    return error


def answered(status: int, **headers: str) -> A2AClientError:
    """Return the error of the SDK for an HTTP status."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = httpx.Response(status, headers=named)
    return wrapped(httpx.HTTPStatusError("refused", request=REQUEST, response=response))


class Time:
    """A clock that advances only while the caller waits, and while a poll times out."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


AWAY = [
    pytest.param(None, id="its stream ended in good order"),
    pytest.param(gone(), id="its connection broke"),
    pytest.param(httpx.RemoteProtocolError("cut"), id="its stream was cut"),
    pytest.param(answered(503), id="the gateway found no pod"),
    pytest.param(httpx.ReadTimeout("silent"), id="its stream was silent"),
]


@pytest.mark.parametrize("breaks", AWAY)
async def test_poll_task_waits_for_a_restarting_peer(breaks) -> None:
    peer = Peer(gone(), answered(502), answered(503), answered(504), cooked(WORKING), cooked(), breaks=breaks)
    heard = await poll_task(peer, SAID, authorization(), look=0.001)  # type: ignore[arg-type] - what is used of it
    assert (heard.state, heard.text) == (COMPLETED, "Soup.")
    assert (peer.sent, peer.cancelled) == (1, 0)


BUSY = [
    pytest.param(answered(429, Retry_After="7"), 7, id="too many requests, with a time"),
    pytest.param(answered(429), 1, id="too many requests, without a time"),
    pytest.param(answered(429, Retry_After="0"), 1, id="too many requests, at once"),
    pytest.param(answered(429, Retry_After="3600"), 90, id="too many requests, with a long time"),
    pytest.param(wrapped(httpx.ConnectTimeout("slow")), 1, id="it accepts no connection in time"),
    pytest.param(wrapped(httpx.ReadTimeout("slow")), 1, id="it does not answer in time"),
]


@pytest.mark.parametrize(("failure", "wait"), BUSY)
async def test_poll_task_waits_for_a_busy_peer(failure, wait) -> None:
    peer, time = Peer(failure, cooked()), Time()
    heard = await poll_task(peer, SAID, authorization(), sleep=time.sleep, monotonic=time.monotonic)  # type: ignore[arg-type]
    assert (heard.state, peer.sent, peer.cancelled) == (COMPLETED, 1, 0)
    assert time.waits == [1, wait]


@pytest.mark.parametrize(("failure", "wait"), BUSY)
async def test_poll_task_gives_up_on_a_peer_that_stays_busy(failure, wait) -> None:
    peer, time = Peer(failure), Time()
    with pytest.raises(A2AClientError):
        await poll_task(peer, SAID, authorization(), sleep=time.sleep, monotonic=time.monotonic)  # type: ignore[arg-type]
    assert 90 < time.seconds <= 91 + wait
    assert peer.cancelled == 1


async def test_poll_task_waits_for_a_peer_without_its_keys() -> None:
    """The peer accepted the token when the task began. A refused poll is repeated once at once."""
    refused = wrapped(PrincipalNotAccepted(REQUEST, httpx.Response(401)))
    peer, time = Peer(refused, refused, cooked()), Time()
    heard = await poll_task(peer, SAID, authorization(), sleep=time.sleep, monotonic=time.monotonic)  # type: ignore[arg-type]
    assert (heard.state, peer.sent, peer.cancelled, time.waits) == (COMPLETED, 1, 0, [1, 1])


async def test_each_poll_has_its_own_time_limit() -> None:
    """The time limit of a stream is longer than the time for which a peer may be unreachable."""
    peer = Peer(cooked())
    await poll_task(peer, SAID, authorization(), look=0.001)  # type: ignore[arg-type] - what is used of it
    assert [context.timeout for context in peer.contexts] == [20]


async def test_poll_task_gives_up_on_a_peer_that_stays_away() -> None:
    peer = Peer(gone())
    with pytest.raises(A2AClientError):
        await poll_task(peer, SAID, authorization(), look=0.001, away=0.05)  # type: ignore[arg-type] - what is used of it
    assert peer.cancelled == 1


LOST = [
    pytest.param(Peer(cooked(), breaks=gone(), began=False), id="nobody knows whether it took the message"),
    pytest.param(Peer(cooked(), breaks=TooLarge("more than is read")), id="it says too much"),
    pytest.param(Peer(answered(403)), id="it may no longer be called"),
    pytest.param(Peer(answered(401)), id="it refuses the token"),
]


@pytest.mark.parametrize("peer", LOST)
async def test_poll_task_raises_permanent_errors_at_once(peer) -> None:
    with pytest.raises((A2AClientError, httpx.HTTPError)):
        await poll_task(peer, SAID, authorization(), look=0.001)


def asked(**about: str) -> Task:
    """Return a task that waits for an approval."""
    question = Message(message_id="q", role=Role.ROLE_AGENT, parts=[Part(text="May I?")])
    question.metadata.update({"https://fleetwright.dev/a2a/ask/v1": {"id": "1", "kind": "approval", **about}})
    return Task(id="t", status=TaskStatus(state=TaskState.TASK_STATE_INPUT_REQUIRED, message=question))


async def test_poll_task_waits_while_reviewers_decide() -> None:
    peer = Peer(asked(by="Reviewers"), asked(by="Reviewers"), cooked())
    heard = await poll_task(peer, SAID, authorization(), look=0.001)
    assert (heard.state, heard.text, peer.sent, peer.cancelled) == (COMPLETED, "Soup.", 1, 0)


async def test_poll_task_cancels_an_approval_that_nobody_else_gives() -> None:
    peer = Peer(asked(), cooked())
    heard = await poll_task(peer, SAID, authorization(), look=0.001)
    assert (heard.wants_approval, peer.cancelled) == (True, 1)
