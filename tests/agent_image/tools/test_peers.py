"""Calls to peers: through a real A2A server, with the credential for that peer, and without call cycles."""

import asyncio
import hashlib
import json
from contextlib import asynccontextmanager, nullcontext
from decimal import Decimal

import httpx
import pytest
from a2a.types import Artifact, Part, StreamResponse, Task, TaskArtifactUpdateEvent
from tests.support.agent.call_records import call_records
from tests.support.waiting import within

from fleetwright_a2a.extensions import ASK, CALL_PATH, COST, TOOL_CALL
from fleetwright_a2a.outbound.bounded_responses import BoundedTransport
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.protocol.frames import (
    InterruptKind,
    InterruptRequest,
    PeerCost,
    Text,
    TurnDone,
    TurnFailed,
    TurnRequest,
    Usage,
)
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteOpenQuestions
from fleetwright_agent.tools.peers.questions import PeerQuestions
from fleetwright_agent.tools.peers.response import MOST_CHARACTERS, PeerResponse, ResponseTooLarge
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext

EGG_BOILER = Peer.model_validate({"name": "boiler", "namespace": "n", "url": "http://boiler"})
CONTEXT = TurnContext(TurnRequest("o", "c", "t", "x"), lambda _: None, {})
COOK = Peer.model_validate({"name": "cook", "namespace": "n", "url": "http://cook", "description": "cooks"})


class Cook:
    """A turn that answers, refuses or never ends."""

    def __init__(self) -> None:
        self.heard: list[TurnRequest] = []
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def run(self, request, hooks):
        self.heard.append(request)
        self.started.set()
        if request.text == "fail":
            raise TurnFailed("model_error", "The model answered with an error (500).")
        if request.text == "wait":
            try:
                await asyncio.sleep(3600)
            finally:
                self.cancelled.set()
        if request.reply is not None:
            yield Usage("m", 10, 2, cost_usd=Decimal("0.000014"))
            yield TurnDone(f"{request.reply.value} eggs, boiled")
            return
        if request.text == "dear":
            yield InterruptRequest(InterruptKind.APPROVAL, "Charge 30?", {"kind": "approval"}, "1", "charge")
            return
        if request.text == "something":
            yield Usage("m", 10, 2, cost_usd=Decimal("0.000014"))
            yield InterruptRequest(
                InterruptKind.QUESTION, "How many eggs?", {"question": "How many eggs?"}, "1", "ask_human"
            )
            return
        if request.text == "talk":
            for _ in range(2_000):
                yield Text("word " * 100)
            yield TurnDone("word " * 200_000)
            return
        yield Text("eggs, ")
        yield Usage("m", 10, 2, cost_usd=Decimal("0.000014"))
        yield TurnDone("eggs, boiled")

    async def aclose(self):
        return None

    async def call(self, method, params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Authorization": f"Bearer {'t' * 43}", "A2A-Version": "1.0"}
        answer = (await self.client.post("http://cook/a2a", json=body, headers=headers)).json()
        return answer["result"]

    async def state(self, number):
        """Return the state of a received task, as its caller sees it."""
        return (await self.call("GetTask", {"id": self.heard[number].task_id}))["status"]["state"]


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@asynccontextmanager
async def _kitchen(folder, *, token="t" * 43, card_url="http://cook", card=10_000, stream=10_000_000):
    """Start the peer's real server, and yield the peer and the caller's tool."""
    digest = hashlib.sha256(("t" * 43).encode()).hexdigest()
    callers = {"version": 1, "callers": [{"name": "n/desk", "kind": "agent", "sha256": digest}]}
    described = {
        "name": "cook",
        "description": "d",
        "version": "1",
        "supportedInterfaces": [{"url": f"{card_url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": "chat", "description": "d", "tags": ["chat"]}],
    }
    theirs, ours = Layout(root=folder / "cook"), Layout(root=folder / "desk")
    theirs.memory.mkdir(parents=True)
    _write(theirs.callers_file, json.dumps(callers))
    _write(theirs.card_file, json.dumps(described))
    _write(ours.peer_token_file("n", "cook"), token)
    config = AgentConfig.model_validate(
        {
            "version": 1,
            "revision": "r",
            "name": "cook",
            "namespace": "n",
            "instructions": "i",
            "url": "http://cook",
            "model": {"name": "m", "baseUrl": "u", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 1},
        }
    )
    cook = Cook()
    app = create_app(config, layout=theirs, turn=cook)
    await app.start()
    transport = BoundedTransport(httpx.ASGITransport(app.a2a), document=card, stream=stream)
    async with httpx.AsyncClient(transport=transport) as client:
        memory = Database(folder / "conversations.db", SCHEMA)
        calls = PeerTools("n/desk", [COOK], ours, client, SqliteOpenQuestions(memory), records=call_records())
        (tool,) = await calls.tools(CONTEXT)
        cook.client = client
        cook.calls = calls
        cook.memory = memory
        yield cook, tool
        await calls.close()
        await memory.aclose()
    await app.drain()
    await app.aclose()


def _call(text, frames, *, answers="", owner="client:a", context="c1", task="t1", **turn):
    request = TurnRequest(owner, context, task, text, **turn)
    arguments = {"message": text} | ({"task_id": answers} if answers else {})
    return ToolCall(arguments, request, frames.append)


async def test_peer_tool_returns_the_answer_and_its_cost(tmp_path):
    frames = []
    async with _kitchen(tmp_path) as (cook, tool):
        assert tool.name == "ask_cook"
        assert await tool.run(_call("boil eggs", frames)) == "eggs, boiled"
    assert frames == [PeerCost("cook", Decimal("0.000014"))]
    (heard,) = cook.heard
    assert (heard.owner, heard.text, heard.call_path) == ("agent:n/desk", "boil eggs", ("n/desk",))


async def test_peer_tool_logs_the_task_of_the_peer(tmp_path, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("boil", []))
    (line,) = (record for record in caplog.records if record.message == "peer task started")
    assert (line.task, line.peer, line.peerTask) == ("t1", "n/cook", cook.heard[0].task_id)


async def test_peer_tool_separates_contexts_of_callers(tmp_path):
    async with _kitchen(tmp_path) as (cook, tool):
        for owner in ("client:a", "client:b", "client:a"):
            request = TurnRequest(owner, "c1", "t1", "boil eggs")
            await tool.run(ToolCall({"message": "boil eggs"}, request, lambda _: None))
    first, second, again = [heard.context_id for heard in cook.heard]
    assert first == again != second


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        pytest.param(("n/cook",), "would loop", id="a peer that is already part of the request is not asked"),
        pytest.param(tuple(f"n/a{i}" for i in range(8)), "already went through 9", id="a path has an end"),
    ],
)
async def test_peer_tool_refuses_call_path_loops_before_the_call(tmp_path, path, wanted):
    async with _kitchen(tmp_path) as (cook, tool):
        with pytest.raises(ToolError, match=wanted):
            await tool.run(_call("boil eggs", [], call_path=path))
    assert not cook.heard


@pytest.mark.parametrize(
    ("kitchen", "text", "wanted"),
    [
        pytest.param({"token": "x" * 43}, "boil", "does not accept this agent as a caller", id="a refused credential"),
        pytest.param({"card": 100}, "boil", "sent more than this agent reads", id="a card without end"),
        pytest.param({"stream": 10_000}, "talk", "sent more than this agent reads", id="an answer without end"),
        pytest.param({}, "fail", "ended without an answer: The model answered", id="a peer that fails says why"),
    ],
)
async def test_peer_tool_failures_are_tool_errors(tmp_path, kitchen, text, wanted):
    async with _kitchen(tmp_path, **kitchen) as (_, tool):
        with pytest.raises(ToolError, match=wanted):
            await tool.run(_call(text, []))


async def test_peer_tool_uses_the_declared_url_not_that_of_the_card(tmp_path):
    async with _kitchen(tmp_path, card_url="http://elsewhere.invalid") as (_, tool):
        assert await tool.run(_call("boil eggs", [])) == "eggs, boiled"


async def test_peer_tool_refuses_calls_without_a_credential(tmp_path):
    async with _kitchen(tmp_path) as (cook, tool):
        Layout(root=tmp_path / "desk").peer_token_file("n", "cook").unlink()
        with pytest.raises(ToolError, match="holds no credential"):
            await tool.run(_call("boil", []))
    assert not cook.heard


async def test_peer_tool_sends_the_longest_accepted_call_path(tmp_path):
    async with _kitchen(tmp_path) as (_, tool):
        assert await tool.run(_call("boil eggs", [], call_path=tuple(f"n/a{i}" for i in range(7)))) == "eggs, boiled"


async def test_call_path_has_its_extension_uri():
    assert CALL_PATH == "https://fleetwright.dev/a2a/call-path/v1"


async def test_peer_tool_counts_cost_once_across_a_restart(tmp_path):
    frames = []
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("something", frames))
        desk = Layout(root=tmp_path / "desk")
        (other,) = await PeerTools(
            "n/desk", [COOK], desk, cook.client, SqliteOpenQuestions(cook.memory), records=call_records()
        ).tools(CONTEXT)
        await other.run(_call("two", frames, answers=cook.heard[0].task_id))
    told = [frame.cost_usd for frame in frames if isinstance(frame, PeerCost)]
    assert sum(told) == Decimal("0.000028")


@pytest.mark.parametrize("number", [1e30, -1, "NaN", "Infinity", "much", True, [1], None])
def test_peer_response_ignores_invalid_costs(number):
    heard = PeerResponse("t")
    event = StreamResponse(task=Task(id="t"))
    event.task.artifacts.add(artifact_id="a").metadata.update({COST: {"costUsd": number}})
    heard.take(event)
    assert heard.costs == []


async def test_peer_tool_truncates_an_endless_answer(tmp_path):
    async with _kitchen(tmp_path) as (_, tool):
        assert await tool.run(_call("talk", [])) == "word " * 10_000


def piece(name, text, *, append=False):
    made = Artifact(artifact_id=name, parts=[Part(text=text)])
    return StreamResponse(artifact_update=TaskArtifactUpdateEvent(task_id="t", artifact=made, append=append))


def test_response_of_a_peer_omits_the_files_of_its_tools():
    heard = PeerResponse()
    file = piece("file", "- long\n+ short")
    file.artifact_update.artifact.metadata.update({TOOL_CALL: {"toolCallId": "1", "name": "rope__cut"}})
    for event in (file, piece("answer", "The rope is cut.")):
        heard.take(event)
    assert heard.text == "The rope is cut."


def test_peer_response_bounds_its_memory():
    heard = PeerResponse()
    for _ in range(1_000):
        heard.take(piece("a", "x" * 10_000, append=True))
    assert sum(map(len, heard._texts.values())) == MOST_CHARACTERS == len(heard.text)
    heard.take(piece("a", "said anew"))
    heard.take(piece("b", "!"))
    assert heard.text == "said anew!"
    for n in range(62):
        heard.take(piece(f"c{n}", ""))
    with pytest.raises(ResponseTooLarge):
        heard.take(piece("one more", ""))


@pytest.mark.parametrize(("length", "is_refused"), [(256, False), (257, True)])
def test_peer_response_bounds_the_id_of_a_task(length, is_refused):
    heard, event = PeerResponse(), StreamResponse(task=Task(id="t" * length))
    with pytest.raises(ResponseTooLarge) if is_refused else nullcontext():
        heard.take(event)
    assert len(heard.task_id) == (0 if is_refused else length)


async def test_peer_tool_returns_the_question_and_cost_of_a_peer(tmp_path):
    frames = []
    async with _kitchen(tmp_path) as (cook, tool):
        said = await tool.run(_call("something", frames))
        (heard,) = cook.heard
        assert said.startswith("cook asks before it goes on: How many eggs?\n")
        assert f'call this tool again with task_id "{heard.task_id}"' in said
        assert await cook.state(0) == "TASK_STATE_INPUT_REQUIRED"
    assert frames == [PeerCost("cook", Decimal("0.000014"))]


async def test_peer_tool_answer_continues_the_task_of_the_question(tmp_path):
    frames = []
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("something", frames))
        asked = cook.heard[0]
        assert await tool.run(_call("two", frames, answers=asked.task_id)) == "two eggs, boiled"
        assert (cook.heard[1].task_id, cook.heard[1].context_id) == (asked.task_id, asked.context_id)
        assert cook.heard[1].metadata[ASK] == {"id": "1"}, "it answers only that question"
        cook.calls.over("client:a", "t1")
        await cook.calls.close()
        assert await cook.state(0) == "TASK_STATE_COMPLETED"
    assert frames == [PeerCost("cook", Decimal("0.000014"))] * 2, "the caller counts each part once"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"owner": "client:b"}, id="of another caller"),
        pytest.param({"context": "c2"}, id="of another conversation"),
    ],
)
async def test_peer_question_of_another_context_cannot_be_answered(tmp_path, other):
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("something", []))
        with pytest.raises(ToolError, match="no open question with this task_id"):
            await tool.run(_call("two", [], answers=cook.heard[0].task_id, **other))
        assert await cook.state(0) == "TASK_STATE_INPUT_REQUIRED"


@pytest.mark.parametrize(
    "named", [pytest.param("nobody", id="nobody knows it"), pytest.param("x" * 300, id="it is none")]
)
async def test_peer_tool_refuses_an_unknown_task_id(tmp_path, named):
    async with _kitchen(tmp_path) as (cook, tool):
        with pytest.raises(ToolError, match="no open question with this task_id"):
            await tool.run(_call("two", [], answers=named))
    assert not cook.heard


async def test_peer_tool_cannot_give_an_approval(tmp_path):
    async with _kitchen(tmp_path) as (cook, tool):
        with pytest.raises(ToolError, match=r"which no agent gives: Charge 30\?"):
            await tool.run(_call("dear", []))
        assert await cook.state(0) == "TASK_STATE_CANCELED"
        # Another caller starts a task in the same conversation, without this tool.
        context, path = cook.heard[0].context_id, {CALL_PATH: ["n/desk"]}
        message = {"messageId": "m", "role": "ROLE_USER", "contextId": context, "parts": [{"text": "dear"}]}
        task = await cook.call("SendMessage", {"message": {**message, "metadata": path}})
        with pytest.raises(ToolError, match="waits for the approval of a person"):
            await tool.run(_call("yes", [], answers=task["task"]["id"]))
        assert await cook.state(1) == "TASK_STATE_INPUT_REQUIRED"


async def test_peer_questions_keep_one_per_context_until_turn_end(tmp_path):
    """A peer has at most one open question per conversation; the end of the turn cancels it."""
    async with _kitchen(tmp_path) as (cook, tool):
        for task in ("t1", "t1", "t2"):
            await tool.run(_call("something", [], task=task))
        await tool.run(_call("something", [], context="c2", task="t3"))
        cook.calls.over("client:a", "t1")
        open_, gone = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"
        async with within("the tasks have the expected states"):
            while [await cook.state(n) for n in range(4)] != [gone, gone, open_, open_]:  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.01)
        cook.calls.over("client:a", "t2")
        await cook.calls.close()
        assert [await cook.state(n) for n in range(4)] == [gone, gone, gone, open_]


@pytest.mark.parametrize(
    ("outlived", "state"),
    [
        pytest.param(True, "TASK_STATE_INPUT_REQUIRED", id="the next process may answer it"),
        pytest.param(False, "TASK_STATE_CANCELED", id="nobody will know of it"),
    ],
)
async def test_peer_questions_at_close_follow_the_outlived_setting(tmp_path, outlived, state):
    async with _kitchen(tmp_path) as (cook, _):
        desk, kept = Layout(root=tmp_path / "desk"), SqliteOpenQuestions(cook.memory)
        calls = PeerTools("n/desk", [COOK], desk, cook.client, kept, outlived=outlived, records=call_records())
        await (await calls.tools(CONTEXT))[0].run(_call("something", []))
        await calls.close()
        assert await cook.state(0) == state
        assert len(await kept.all()) == (1 if outlived else 0)


async def test_peer_questions_of_a_removed_peer_do_not_block_close(tmp_path):
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("something", []))
        kept = SqliteOpenQuestions(cook.memory)
        without = PeerTools(
            "n/desk", [EGG_BOILER], Layout(root=tmp_path / "desk"), cook.client, kept, records=call_records()
        )
        without.over("client:a", "t1")
        await without.close()
        assert await kept.all() == []


async def test_peer_questions_evict_the_oldest_beyond_the_limit(tmp_path):
    given_up = []

    async def give_up(question):
        given_up.append(question.place.context_id)

    memory = Database(tmp_path / "conversations.db", SCHEMA)
    questions = PeerQuestions(SqliteOpenQuestions(memory), give_up, most=2)
    for name in ("third", "second", "first"):
        await questions.put(OpenQuestion(QuestionKey("o", name, "p"), f"{name} task", "t"))
    await questions.aclose()
    assert given_up == ["third"]
    assert [each.place.context_id for each in await SqliteOpenQuestions(memory).all()] == ["second", "first"]
    await memory.aclose()


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        pytest.param(
            {"traceId": "0af7", "spanId": "b7ad"}, {"traceId": "0af7", "spanId": "b7ad"}, id="a trace goes on"
        ),
        pytest.param({"traceId": "0af7", "baggage": "x"}, {"traceId": "0af7"}, id="and nothing beside it"),
        pytest.param({"traceId": "Robert'); --"}, None, id="what is no trace stays here"),
        pytest.param("0af7", None, id="what is no object stays here"),
    ],
)
async def test_peer_tool_passes_on_a_valid_trace_context(tmp_path, said, passed):
    async with _kitchen(tmp_path) as (cook, tool):
        await tool.run(_call("boil eggs", [], metadata={"a2a.trace": said}))
    (heard,) = cook.heard
    assert heard.metadata.get("a2a.trace") == passed
