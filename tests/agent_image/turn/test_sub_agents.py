"""Sub-agents: the listeners of their finished tasks, and the tools that they share with the turn."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Interrupt
from prometheus_client import CollectorRegistry

from fleetwright_agent.config.sub_agents import SubAgent
from fleetwright_agent.protocol.frames import Text, TurnFailed, TurnRequest
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.tool_journal import SqliteToolJournal
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.sub_agents.listener import FinishedTask
from fleetwright_agent.turn.sub_agents.runner import SubAgentLoop, SubAgentRun, shared_tools

REQUEST = TurnRequest("client:default", "c", "t", "x")
SCOUT = SubAgent(name="scout", description="Looks.", instructions="Look.", tools=("a__see", "a__hear"))
MESSAGES = [
    HumanMessage("Look around"),
    AIMessage("", tool_calls=[{"id": str(n), "name": "a__see", "args": {}} for n in range(2)]),
    ToolMessage("grass", tool_call_id="0", name="a__see"),
    ToolMessage("grass", tool_call_id="1", name="a__see"),
    ToolMessage("Error: dark", tool_call_id="2", name="a__hear", status="error"),
    AIMessage("Grass everywhere"),
]


@dataclass
class Scripted:
    """A stub of the graph that returns these messages or fails."""

    messages: list
    fails: Exception | None = None
    runs: int = 0

    async def aget_state(self, place):
        return SimpleNamespace(values={}, tasks=())

    async def ainvoke(self, entry, place, **kwargs):
        self.runs += 1
        if self.fails:
            raise self.fails
        return {"messages": self.messages}


@dataclass
class Ears:
    breaks: bool = False
    heard: list[FinishedTask] = field(default_factory=list)

    async def finished(self, task, tell):
        self.heard.append(task)
        tell(Text("I have heard it."))
        if self.breaks:
            raise RuntimeError("deaf")


@pytest.fixture
async def journal(tmp_path):
    database = Database(tmp_path / "conversations.db", SCHEMA)
    yield SqliteToolJournal(database)
    await database.aclose()


def working(graph, journal, *ears):
    return SubAgentRun(
        [SubAgentLoop(SCOUT, graph)], journal=journal, metrics=Metrics(CollectorRegistry()), listeners=ears
    )


async def asked(work, place="1", *, emit=lambda _: None):
    call = ToolCall({}, REQUEST, emit, key=place, identity=place)
    return await work.answer(
        "scout", "Look around", place=place, call=call, context=TurnContext(REQUEST, call.emit, {})
    )


async def test_delegation_listener_is_called_once_per_finished_task(journal):
    ears, graph = Ears(), Scripted(MESSAGES)
    work, frames = working(graph, journal, ears), []
    assert [await asked(work, emit=frames.append) for _ in range(2)] == ["Grass everywhere"] * 2
    assert frames == [Text("I have heard it.")]
    assert ears.heard == [FinishedTask(REQUEST, "scout", "Look around", "Grass everywhere", ("a__see",))]
    assert graph.runs == 1, "the second call, in the next process, finds the stored result"


async def test_delegation_listener_failure_affects_nothing_else(journal, caplog):
    deaf, ears = Ears(breaks=True), Ears()
    assert await asked(working(Scripted(MESSAGES), journal, deaf, ears)) == "Grass everywhere"
    assert len(ears.heard) == 1
    assert "a listener for sub-agent tasks failed" in caplog.text


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        pytest.param(Scripted([], TurnFailed("x", "No.")), "scout came to no end: No.", id="a turn that failed"),
        pytest.param(
            Scripted([], RuntimeError("/etc/x")), "scout broke; go on without it", id="a break, without its insides"
        ),
        pytest.param(
            Scripted([], TimeoutError()), "scout broke; go on without it", id="a time limit that is not its own"
        ),
        pytest.param(Scripted([AIMessage(" ")]), "scout gave an empty answer", id="an empty answer"),
    ],
)
async def test_delegation_failure_is_a_stored_tool_error(journal, graph, says):
    """Failed work of a sub-agent is a tool error, also in the next process, and no listener learns of it."""
    ears = Ears()
    work = working(graph, journal, ears)
    for _ in range(2):
        with pytest.raises(ToolError, match=f"^{says}"):
            await asked(work)
    assert (graph.runs, ears.heard) == (1, [])


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        pytest.param({"arguments": {}, "callId": "inner"}, {"arguments": {}, "callId": "outer/inner"}, id="approval"),
        pytest.param({}, {}, id="question"),
    ],
)
async def test_question_has_the_call_id_of_the_reports(journal, call, wanted):
    body = {"kind": "approval", "prompt": "May I?", "tool": "a__see", "payload": {"title": "See?"}}
    stopped = SimpleNamespace(
        aget_state=Scripted([]).aget_state, ainvoke=lambda *_, **__: _values(Interrupt({**body, **call}, id="q"))
    )
    question = await asked(working(stopped, journal), "outer")
    (found,) = question.graph_interrupt().args[0]
    told = {"prompt": "Sub-agent scout: May I?", "payload": {"title": "See? (sub-agent scout)"}}
    assert (found.id, found.value) == ("q", {**body, **told, **wanted})


async def _values(interrupt):
    return {"messages": [], "__interrupt__": (interrupt,)}


async def test_delegation_after_a_cancellation_runs_again(journal):
    graph = Scripted(MESSAGES, asyncio.CancelledError())
    work = working(graph, journal)
    with pytest.raises(asyncio.CancelledError):
        await asked(work)
    graph.fails = None
    assert await asked(work) == "Grass everywhere"


async def _run(_):
    return "done"


def tool(name):
    return Tool(name, "", {"type": "object"}, _run)


def test_shared_tools_are_those_listed_and_available():
    tools = {name: tool(name) for name in ("a__see", "a__smell", "task")}
    assert list(shared_tools(tools, SCOUT)) == ["a__see"]


def test_sub_agent_config_refuses_delegation_tools():
    with pytest.raises(ValueError, match="a sub-agent cannot have the tool task_batch"):
        SubAgent(name="scout", description="Looks.", instructions="Look.", tools=("task_batch",))
