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

    async def send_message(
        self, request: SendMessageRequest, *, context: ClientCallContext
    ) -> AsyncIterator[StreamResponse]:
        self.sent += 1
        if self._began:
            yield StreamResponse(task=Task(id="t", status=TaskStatus(state=WORKING)))
        if self._breaks:
            raise self._breaks

    async def get_task(self, request: GetTaskRequest, *, context: ClientCallContext) -> Task:
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


def answered(status: int) -> A2AClientError:
    """Return the error of the SDK for an HTTP status."""
    request = httpx.Request("POST", "http://gateway/agents/n/cook/a2a")
    error = A2AClientError("the request failed")
    error.__cause__ = httpx.HTTPStatusError("refused", request=request, response=httpx.Response(status))
    return error


AWAY = [
    pytest.param(None, id="its stream ended in good order"),
    pytest.param(gone(), id="its connection broke"),
    pytest.param(httpx.RemoteProtocolError("cut"), id="its stream was cut"),
    pytest.param(answered(503), id="the gateway found no pod"),
]


@pytest.mark.parametrize("breaks", AWAY)
async def test_poll_task_waits_for_a_restarting_peer(breaks) -> None:
    peer = Peer(gone(), answered(502), answered(503), answered(504), cooked(WORKING), cooked(), breaks=breaks)
    heard = await poll_task(peer, SAID, authorization(), look=0.001)  # type: ignore[arg-type] - what is used of it
    assert (heard.state, heard.text) == (COMPLETED, "Soup.")
    assert (peer.sent, peer.cancelled) == (1, 0)


async def test_poll_task_gives_up_on_a_peer_that_stays_away() -> None:
    peer = Peer(gone())
    with pytest.raises(A2AClientError):
        await poll_task(peer, SAID, authorization(), look=0.001, away=0.05)  # type: ignore[arg-type] - what is used of it
    assert peer.cancelled == 1


LOST = [
    pytest.param(Peer(cooked(), breaks=gone(), began=False), id="nobody knows whether it took the message"),
    pytest.param(Peer(cooked(), breaks=httpx.ReadTimeout("silent")), id="it is there and says nothing"),
    pytest.param(Peer(cooked(), breaks=TooLarge("more than is read")), id="it says too much"),
    pytest.param(Peer(answered(403)), id="it may no longer be called"),
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
