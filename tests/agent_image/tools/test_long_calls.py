"""Calls of peers that last longer than a token is valid, and peers that refuse a token before it expires.

The clock of the tests advances while the caller waits.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx
import pytest
from a2a.types.a2a_pb2 import Task
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import CARD, COMPLETED, FOUND, build_context
from tests.support.waiting import within

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.extensions import ASK
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.direct import DirectCalls
from fleetwright_agent.tools.peers.dpop_auth import DPoPAuth, DPoPKey
from fleetwright_agent.tools.peers.exchange import TokenExchange
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError

GATEWAY = "http://gateway"
COOK = Peer(name="cook", namespace="n", url="http://cook")
LIFE, SPARE = 300, 60
"""The life of a token, and the time before its expiry at which the caller replaces it, in seconds."""
WORKING = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
REVIEWED = {
    "id": "t", "contextId": "c",
    "status": {
        "state": "TASK_STATE_INPUT_REQUIRED",
        "message": {
            "messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Approve?"}], "extensions": [ASK],
            "metadata": {ASK: {"id": "1", "kind": "approval", "by": "Reviewers"}},
        },
    },
}  # fmt: skip


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.at: dict[float, Callable[[], None]] = {}
        """Functions that run at a time."""

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        for moment in [each for each in self.at if each <= self.seconds]:
            self.at.pop(moment)()
        await asyncio.sleep(0)


class HeldStream(httpx.AsyncByteStream):
    """A stream that has one event, and then stays open."""

    def __init__(self, event: bytes, began: asyncio.Event) -> None:
        self._event = event
        self._began = began

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._event
        self._began.set()
        await asyncio.Event().wait()


class Network(httpx.AsyncBaseTransport):
    """A gateway that exchanges tokens, and a peer that refuses each token 300 seconds after its issue."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.issued: dict[str, float] = {}
        """The times at which the tokens were issued."""
        self.revoked: set[str] = set()
        self.forms: list[dict[str, str]] = []
        self.is_away = False
        self.requests: list[tuple[str, str, str, int]] = []
        """The method, the authorization, the delegation and the status of each request to the peer."""
        self.task: dict[str, Any] = WORKING
        self.completes_at = 400.0
        self.began: asyncio.Event | None = None
        """Set by a stream that stays open. Without it, the stream ends after its first event."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/oauth/token":
            return self._exchange(await request.aread())
        if request.url.path == "/v1/agents/n/desk/peers":
            return httpx.Response(200, json={"items": []})
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        body = json.loads(await request.aread())
        scheme, _, token = request.headers["authorization"].partition(" ")
        expired = self.time.now() >= self.issued.get(token, -LIFE) + LIFE
        status = 401 if expired or token in self.revoked else 200
        delegation = request.headers.get("fleetwright-delegation", "")
        self.requests.append((body["method"], f"{scheme} {token}", delegation, status))
        if status == 401:
            return httpx.Response(401, headers={"WWW-Authenticate": 'DPoP error="invalid_token"'})
        return self._answer(body)

    def _exchange(self, form: bytes) -> httpx.Response:
        if self.is_away:
            raise httpx.ConnectError("refused")
        self.forms.append(dict(parse_qsl(form.decode())))
        number = len(self.forms)
        self.issued[f"a{number}"] = self.time.now()
        return httpx.Response(200, json={"access_token": f"a{number}", "delegation": f"d{number}", "expires_in": LIFE})

    def _answer(self, body: dict[str, Any]) -> httpx.Response:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": body["id"]}
        if body["method"] == "SendStreamingMessage":
            event = f"data: {json.dumps({**answer, 'result': {'task': self.task}})}\n\n".encode()
            stream = HeldStream(event, self.began) if self.began else httpx.ByteStream(event)
            return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=stream)
        result = COMPLETED if self.time.now() >= self.completes_at else self.task
        return httpx.Response(200, json={**answer, "result": result})

    def sent(self, method: str) -> list[tuple[str, str, int]]:
        return [(*about, status) for name, *about, status in self.requests if name == method]


class Desk:
    """The calling agent. Its task `t1` acts for a principal, and its task `t2` does not."""

    def __init__(self, folder: Path) -> None:
        self.time = Time()
        self.network = Network(self.time)
        self.layout = Layout(root=folder)
        self.layout.gateway_token_file.parent.mkdir(parents=True)
        self.pod_token("pod")
        self.log = MemoryTaskLog()
        self.key = DPoPKey(self.time.now)
        self.auth = DPoPAuth(self.key, opaque=lambda _: None, monotonic=self.time.now)
        self.client = httpx.AsyncClient(transport=self.network, auth=self.auth)

    def pod_token(self, token: str) -> None:
        self.layout.gateway_token_file.write_text(token)
        self.network.issued[token] = self.time.now()

    async def begin_task(self, *, expires_at: int = 3600) -> None:
        delegation = Delegation("mine", expires_at, "t1")
        claim = Claim("client:a", "t1", b"")
        await self.log.accept(claim, Task(id="t1", context_id="c1"), at_ns=1, delegation=delegation)

    async def peer_tool(self) -> Tool:
        read_token = self.layout.gateway_token_file.read_text
        now, sleep = self.time.now, self.time.sleep
        exchange = TokenExchange(GATEWAY, self.client, self.key, read_token=read_token, now=now, sleep=sleep)
        direct = DirectCalls(exchange, self.auth, self.log, now=now)
        kept, records = memory_storage().questions, call_records()
        peers = PeerTools("n/desk", [COOK], self.layout, self.client, kept, records=records, direct=direct, sleep=sleep)
        (tool,) = await peers.tools(build_context())
        return tool

    async def fleet_tool(self) -> Tool:
        storage = memory_storage()
        stores = storage.questions, storage.delegated, self.log
        now, sleep = self.time.now, self.time.sleep
        fleet = FleetTools(
            "n/desk", GATEWAY, self.layout, self.client, *stores, records=call_records(), now=now, sleep=sleep
        )
        return next(tool for tool in await fleet.tools(build_context()) if tool.name == "ask_agent")


def call(task: str = "t1", **arguments: str) -> ToolCall:
    return ToolCall({"message": "boil eggs", **arguments}, TurnRequest("client:a", "c1", task, "x"), lambda _: None)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(tmp_path)
    await made.begin_task()
    async with within("the calls of the test end"), made.client:
        yield made


TASKS = [pytest.param("t1", "mine", id="for a principal"), pytest.param("t2", "pod", id="without a principal")]


@pytest.mark.parametrize(("task", "subject"), TASKS)
@pytest.mark.parametrize(
    "state", [pytest.param(REVIEWED, id="reviewers decide"), pytest.param(WORKING, id="the stream broke")]
)
async def test_poll_continues_after_the_life_of_a_token(desk: Desk, state: Any, task: str, subject: str) -> None:
    desk.network.task = state
    assert await (await desk.peer_tool()).run(call(task)) == FOUND
    assert desk.time.seconds >= desk.network.completes_at > LIFE
    assert desk.network.sent("SendStreamingMessage") == [("DPoP a1", "d1", 200)]
    assert {token: status for token, _, status in desk.network.sent("GetTask")} == {"DPoP a1": 200, "DPoP a2": 200}
    assert desk.network.sent("CancelTask") == []
    # The polls share one more exchange. It is for no message, so its delegation is not used.
    assert [(form["subject_token"], form.get("audience_task")) for form in desk.network.forms] == [(subject, None)] * 2
    assert {delegation for _, delegation, _ in desk.network.sent("GetTask")} == {""}


@pytest.mark.parametrize(("task", "subject"), TASKS)
async def test_cancel_after_the_life_of_a_token_is_accepted(desk: Desk, task: str, subject: str) -> None:
    desk.network.began = asyncio.Event()
    running = asyncio.create_task((await desk.peer_tool()).run(call(task)))
    await desk.network.began.wait()
    desk.time.seconds = 900.0
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert desk.network.sent("CancelTask") == [("DPoP a2", "", 200)]
    assert [form["subject_token"] for form in desk.network.forms] == [subject] * 2


async def test_poll_gets_a_new_token_if_the_peer_refuses_one(desk: Desk) -> None:
    desk.time.at[10] = lambda: desk.network.revoked.add("a1")
    assert await (await desk.peer_tool()).run(call()) == FOUND
    refused = [token for token, _, status in desk.network.sent("GetTask") if status == 401]
    assert refused == ["DPoP a1"]


async def test_poll_ends_if_the_peer_refuses_two_tokens(desk: Desk) -> None:
    desk.time.at[10] = lambda: desk.network.revoked.update({"a1", "a2"})
    with pytest.raises(ToolError, match="does not accept this agent as a caller"):
        await (await desk.peer_tool()).run(call())
    assert [status for _, _, status in desk.network.sent("GetTask")][-3:] == [200, 401, 401]
    # The exchange has forgotten both tokens, so the cancellation has a third one.
    assert desk.network.sent("CancelTask") == [("DPoP a3", "", 200)]


async def test_poll_keeps_its_token_while_the_gateway_restarts(desk: Desk) -> None:
    def change(*, is_away: bool) -> None:
        desk.network.is_away = is_away

    desk.time.at = {LIFE - SPARE: lambda: change(is_away=True), LIFE - 1: lambda: change(is_away=False)}
    assert await (await desk.peer_tool()).run(call()) == FOUND
    assert {status for *_, status in desk.network.requests} == {200}


async def test_poll_without_a_new_token_names_the_reason(desk: Desk) -> None:
    desk.time.at[SPARE] = lambda: setattr(desk.network, "is_away", True)
    with pytest.raises(ToolError, match="cannot be asked for the caller of this task: the gateway is not reachable"):
        await (await desk.peer_tool()).run(call())
    assert desk.time.seconds == LIFE


async def test_cancel_uses_the_former_token_after_the_delegation(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.begin_task(expires_at=100)
    desk.network.began = asyncio.Event()
    running = asyncio.create_task((await desk.peer_tool()).run(call()))
    await desk.network.began.wait()
    desk.time.seconds = 200.0
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await desk.client.aclose()
    assert [(token, status) for token, _, status in desk.network.sent("CancelTask")] == [("DPoP a1", 200)]


async def test_poll_through_the_gateway_reads_the_rotated_token(desk: Desk) -> None:
    desk.time.at[LIFE - SPARE] = lambda: desk.pod_token("next-pod")
    assert await (await desk.fleet_tool()).run(call(agent="cook")) == FOUND
    polls = desk.network.sent("GetTask")
    assert {(token, status) for token, _, status in polls} == {("Bearer pod", 200), ("Bearer next-pod", 200)}
    assert {delegation for _, delegation, _ in polls} == {"mine"}


async def test_cancel_through_the_gateway_reads_the_rotated_token(desk: Desk) -> None:
    desk.network.began = asyncio.Event()
    running = asyncio.create_task((await desk.fleet_tool()).run(call(agent="cook")))
    await desk.network.began.wait()
    desk.time.seconds = 900.0
    desk.pod_token("next-pod")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [(token, status) for token, _, status in desk.network.sent("CancelTask")] == [("Bearer next-pod", 200)]
