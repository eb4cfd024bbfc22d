"""A tool call ends in a result whatever the tool does, and its schema is looked up nowhere."""

import socket
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage
from prometheus_client import CollectorRegistry

from fleetwright_agent.config import Limits
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.journal import Journal
from fleetwright_agent.memory.schema import SCHEMA
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.frames import ToolEnd, TurnRequest
from fleetwright_agent.turn.middleware.tool_calls import ToolCalls

OBJECT = {"type": "object", "properties": {}}


@pytest.fixture
async def journal(tmp_path):
    database = Database(tmp_path / "conversations.db", SCHEMA)
    yield Journal(database)
    await database.aclose()


async def _run(tool, journal, **arguments):
    frames = []
    context = TurnContext(TurnRequest("o", "c", "t", "x"), frames.append, {tool.name: tool}, "thread")
    calls = ToolCalls(Limits(), Metrics(CollectorRegistry()), journal)
    state = {"messages": [AIMessage("", id="asked")]}
    request = SimpleNamespace(tool_call={"id": "1", "name": tool.name, "args": arguments}, state=state)
    return await calls.run_tool(request, context), frames


async def test_a_tool_that_breaks_is_a_result_without_its_insides(caplog, journal):
    async def broken(_):
        raise RuntimeError("/etc/secret in line 7")

    message, frames = await _run(Tool("t", "d", OBJECT, broken), journal)
    assert message.status == "error"
    assert message.text == "Error: the tool broke; go on without it"
    assert [frame.ok for frame in frames if isinstance(frame, ToolEnd)] == [False]
    assert "line 7" in caplog.text


@pytest.mark.parametrize("reference", ["http://127.0.0.1:{port}/schema", "#/$defs/gone"])
async def test_a_schema_is_never_fetched_from_where_it_points_to(reference, journal):
    async def answer(_):
        return "done"

    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.settimeout(0.2)
        schema = {"type": "object", "properties": {"x": {"$ref": reference.format(port=canary.getsockname()[1])}}}
        message, _ = await _run(Tool("t", "d", schema, answer), journal, x="1")
        with pytest.raises(TimeoutError):
            canary.accept()
    assert message.text == "done"


async def test_arguments_outside_the_schema_are_named(journal):
    async def answer(_):
        return "done"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    message, _ = await _run(Tool("t", "d", schema, answer), journal, n="x")
    assert message.text == "Error: n: 'x' is not of type 'integer'"
