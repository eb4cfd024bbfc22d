"""Requests to a peer that is busy or restarts: how often they are repeated, and after which time."""

import asyncio
import json
import socket

import httpx
import pytest
from tests.support.agent.call_records import call_records
from tests.support.agent.fleet import CARD, COMPLETED, FOUND, build_context
from tests.support.waiting import within

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.tools.fleet.tools import FleetTools
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import ToolCall, ToolError

COOK = Peer(name="cook", namespace="n", url="http://cook")
REFUSED, RESET, CUT = httpx.ConnectError("refused"), httpx.ReadError("reset"), httpx.RemoteProtocolError("cut")


def unknown_name():
    error = httpx.ConnectError("no such name")
    error.__cause__ = socket.gaierror("no such name")
    return error


def refusal(status, **headers):
    return httpx.Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})


class Kitchen(httpx.AsyncBaseTransport):
    """Serves a card, and fails as a script says before it answers."""

    def __init__(self, *failures, cards=()):
        self.failures = list(failures)
        self.cards = list(cards)
        self.messages = []
        """The bodies of the messages, without the ids of their requests."""

    async def handle_async_request(self, request):
        if request.method == "GET":
            return self._failure(self.cards) or httpx.Response(200, json=CARD)
        body = json.loads(await request.aread())
        if not body["method"].startswith("Send"):
            return httpx.Response(200, json={"jsonrpc": "2.0", "id": body["id"], "result": COMPLETED})
        self.messages.append(body["params"])
        if (failure := self._failure(self.failures)) is not None:
            return failure
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": {"task": COMPLETED}}
        if body["method"] == "SendMessage":
            return httpx.Response(200, json=answer)
        return httpx.Response(
            200, headers={"Content-Type": "text/event-stream"}, content=f"data: {json.dumps(answer)}\n\n"
        )

    def _failure(self, script):
        if not script:
            return None
        if isinstance(found := script.pop(0), Exception):
            raise found
        return found


class Waits:
    def __init__(self):
        self.seconds = []

    async def __call__(self, seconds):
        self.seconds.append(seconds)


def written(folder):
    layout = Layout(root=folder)
    for path in (layout.peer_token_file("n", "cook"), layout.gateway_token_file):
        path.parent.mkdir(parents=True)
        path.write_text("token")
    return layout


def call(**arguments):
    return ToolCall({"message": "boil eggs", **arguments}, TurnRequest("client:a", "c1", "t1", "x"), lambda _: None)


async def peer_tool(kitchen, folder, sleep):
    client = httpx.AsyncClient(transport=kitchen)
    peers = PeerTools(
        "n/desk", [COOK], written(folder), client, memory_storage().questions, sleep=sleep, records=call_records()
    )
    (tool,) = await peers.tools(build_context())
    return tool


SCRIPTS = [
    pytest.param([], [], FOUND, id="no failure"),
    pytest.param([refusal(429, Retry_After="3")], [3], FOUND, id="busy, with Retry-After"),
    pytest.param([refusal(503, Retry_After="60")], [], "it answered 503", id="a long Retry-After"),
    pytest.param([refusal(503, Retry_After="soon")], [5], FOUND, id="a malformed Retry-After"),
    pytest.param([refusal(503), refusal(429)], [5, 10], FOUND, id="busy twice, without Retry-After"),
    pytest.param([refusal(503)] * 3, [5, 10], "it answered 503", id="busy three times"),
    pytest.param([refusal(502)], [8], FOUND, id="the gateway finds no agent"),
    pytest.param([refusal(502), refusal(503, Retry_After="2")], [8, 2], FOUND, id="it restarts, and is busy"),
    pytest.param([REFUSED, RESET], [8, 16], FOUND, id="the connection is refused and reset"),
    pytest.param([REFUSED, CUT, REFUSED], [8, 16], "no connection", id="no connection three times"),
    pytest.param([refusal(502, Fleetwright_Failure="size")], [], "it answered 502", id="too large for the gateway"),
    pytest.param([refusal(500)], [], "it answered 500", id="an error of the peer"),
    pytest.param([refusal(401)], [], "does not accept this agent", id="a refused token"),
    pytest.param([refusal(504)], [], "it answered 504", id="it may still work on the request"),
    pytest.param([httpx.ReadTimeout("slow")], [], "did not answer in time", id="it does not answer"),
    pytest.param([unknown_name()], [], "no connection", id="a name that leads nowhere"),
]


@pytest.mark.parametrize(("failures", "waits", "wanted"), SCRIPTS)
async def test_message_is_repeated_with_the_same_id(tmp_path, failures, waits, wanted):
    kitchen, sleep = Kitchen(*failures), Waits()
    tool = await peer_tool(kitchen, tmp_path, sleep)
    if wanted == FOUND:
        assert await tool.run(call()) == FOUND
    else:
        with pytest.raises(ToolError, match=wanted):
            await tool.run(call())
    assert sleep.seconds == waits
    assert len(kitchen.messages) == len(waits) + 1
    assert all(message == kitchen.messages[0] for message in kitchen.messages)


async def test_attempts_of_card_and_message_count_together(tmp_path):
    kitchen, sleep = Kitchen(refusal(503), refusal(503), cards=[REFUSED]), Waits()
    with pytest.raises(ToolError, match="it answered 503"):
        await (await peer_tool(kitchen, tmp_path, sleep)).run(call())
    assert (sleep.seconds, len(kitchen.messages)) == ([8, 10], 2)


async def test_background_task_is_begun_with_one_message_id(tmp_path):
    kitchen, sleep, storage = Kitchen(refusal(503), REFUSED), Waits(), memory_storage()
    client = httpx.AsyncClient(transport=kitchen)
    stores = storage.questions, storage.delegated, MemoryTaskLog()
    fleet = FleetTools(
        "n/desk",
        "http://cook",
        written(tmp_path),
        client,
        *stores,
        now=lambda: 0.0,
        sleep=sleep,
        records=call_records(),
    )
    found = await fleet.background.begin(COOK, call(wait=False))
    assert "works on task t" in found
    assert sleep.seconds == [5, 16]
    assert [message["message"]["messageId"] for message in kitchen.messages] == [
        kitchen.messages[0]["message"]["messageId"]
    ] * 3


class Broken(httpx.AsyncByteStream):
    """A stream that breaks after its first event."""

    async def __aiter__(self):
        part = {"taskId": "t", "contextId": "c", "artifact": {"artifactId": "a", "parts": [{"text": "eggs"}]}}
        answer = {"jsonrpc": "2.0", "id": "1", "result": {"artifactUpdate": part}}
        yield f"data: {json.dumps(answer)}\n\n".encode()
        raise httpx.ReadError("cut")


async def test_message_is_not_repeated_after_a_part_of_its_answer(tmp_path):
    broken = httpx.Response(200, headers={"Content-Type": "text/event-stream"}, stream=Broken())
    kitchen, sleep = Kitchen(broken), Waits()
    with pytest.raises(ToolError, match="no connection"):
        await (await peer_tool(kitchen, tmp_path, sleep)).run(call())
    assert (sleep.seconds, len(kitchen.messages)) == ([], 1)


async def test_cancelled_turn_ends_the_wait(tmp_path):
    waiting = asyncio.Event()

    async def sleep(_):
        waiting.set()
        await asyncio.Event().wait()

    kitchen = Kitchen(refusal(503))
    running = asyncio.create_task((await peer_tool(kitchen, tmp_path, sleep)).run(call()))
    async with within("the call waits"):
        await waiting.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert len(kitchen.messages) == 1
