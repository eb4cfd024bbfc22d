"""Tool calls: each ends with a result, whatever the tool does, and validation fetches no schema."""

import json
import socket
import sqlite3
import time
from types import SimpleNamespace

import pytest
from langchain_core.messages import AIMessage
from prometheus_client import CollectorRegistry

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.audit.files import FILE
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.enforcement import AuditMode
from fleetwright_agent.config.enforcement import Enforcement as Policy
from fleetwright_agent.config.server import Limits
from fleetwright_agent.protocol.frames import ToolEnd, ToolStart, TurnFailed, TurnRequest
from fleetwright_agent.storage.sqlite.call_windows import SqliteCallWindows
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.grants import SqliteGrantStore
from fleetwright_agent.storage.sqlite.tool_journal import SqliteToolJournal
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import Ask, Deny, Tool
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.pipeline.tool.auditing import ToolAudit
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy
from fleetwright_agent.turn.pipeline.tool.skill_fence import SkillFence
from fleetwright_agent.turn.pipeline.tool.tool_calls import ToolCalls

CONFIG = AgentConfig.model_validate(
    {
        "version": 1,
        "revision": "r",
        "name": "desk",
        "namespace": "n",
        "instructions": "i",
        "url": "u",
        "model": {"name": "m", "baseUrl": "u", "contextWindow": 10, "maxOutputTokens": 1, "timeoutSeconds": 1},
    }
)
OBJECT = {"type": "object", "properties": {}}


@pytest.fixture
async def database(tmp_path):
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


def _calls(database, *, policy=Policy(), trail=None, mode=AuditMode.OFF):  # noqa: B008 - frozen
    return ToolCalls(
        Limits(),
        Metrics(CollectorRegistry()),
        SqliteToolJournal(database),
        enforcement=EnforcementPolicy(policy, SqliteCallWindows(database, now_ns=time.time_ns)),
        decisions=CallDecisions(CONFIG, Grants(SqliteGrantStore(database, now=time.time))),
        fence=SkillFence(lambda _: None, mounted=()),
        auditor=ToolAudit(trail, mode),
    )


async def _run(tool, database, *, policy=Policy(), trail=None, mode=AuditMode.OFF, call="1", **arguments):  # noqa: B008 - frozen
    frames = []
    context = TurnContext(TurnRequest("o", "c", "t", "x"), frames.append, {tool.name: tool}, "thread")
    calls = _calls(database, policy=policy, trail=trail, mode=mode)
    state = {"messages": [AIMessage("", id="asked")]}
    request = SimpleNamespace(tool_call={"id": call, "name": tool.name, "args": arguments}, state=state)
    return await calls.run_tool(request, context), frames


async def test_tool_exception_is_a_result_without_internals(caplog, database):
    async def broken(_):
        raise RuntimeError("/etc/secret in line 7")

    message, frames = await _run(Tool("t", "d", OBJECT, broken), database)
    assert message.status == "error"
    assert message.text == "Error: the tool broke; go on without it"
    assert [frame.ok for frame in frames if isinstance(frame, ToolEnd)] == [False]
    assert "line 7" in caplog.text


async def test_tool_call_that_fails_its_turn_is_audited(database, tmp_path):
    async def failing(_):
        raise TurnFailed("storage", "no")

    trail = AuditTrail(tmp_path, redact=Redactor(), now_ns=time.time_ns, on_failure=lambda: None)
    with pytest.raises(TurnFailed):
        await _run(Tool("t", "d", OBJECT, failing), database, trail=trail, mode=AuditMode.BEST_EFFORT)
    await trail.aclose()
    (line,) = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert (line["tool"], line["outcome"], line["success"]) == ("t", "failed", False)


async def test_call_blocked_by_the_audit_trail_uses_no_limit(database, tmp_path):
    """A call that was blocked because its audit record could not be written does not count towards the limit."""

    async def answer(_):
        return "done"

    folder = tmp_path / "audit"
    folder.write_text("in the way")
    trail = AuditTrail(folder, redact=Redactor(), now_ns=time.time_ns, on_failure=lambda: None)
    policy = Policy.model_validate({"limits": [{"tool": "t", "max": 1, "windowSeconds": 3600}]})
    said = []
    for identity in ("first", "second"):
        message, _ = await _run(
            Tool("t", "d", OBJECT, answer), database, policy=policy, trail=trail, mode=AuditMode.REQUIRED, call=identity
        )
        said.append(message.text)
        if folder.is_file():
            folder.unlink()
    await trail.aclose()
    assert ("audit trail" in said[0], said[1]) == (True, "done")


async def test_audit_record_is_written_before_the_journal_entry(database, tmp_path):
    """A resumed turn that finds the result in the journal writes no audit record."""

    async def answer(_):
        return "done"

    known = []

    def redact(about):
        known.append(sqlite3.connect(tmp_path / "conversations.db").execute("SELECT state FROM calls").fetchall())
        return about

    trail = AuditTrail(tmp_path, redact=redact, now_ns=time.time_ns, on_failure=lambda: None)
    await _run(Tool("t", "d", OBJECT, answer), database, trail=trail, mode=AuditMode.BEST_EFFORT)
    await trail.aclose()
    assert known == [[("begun",)]]


@pytest.mark.process
@pytest.mark.parametrize("reference", ["http://127.0.0.1:{port}/schema", "#/$defs/gone"])
async def test_schema_references_are_not_fetched(reference, database):
    async def answer(_):
        return "done"

    with socket.create_server(("127.0.0.1", 0)) as canary:
        canary.settimeout(0.2)
        schema = {"type": "object", "properties": {"x": {"$ref": reference.format(port=canary.getsockname()[1])}}}
        message, _ = await _run(Tool("t", "d", schema, answer), database, x="1")
        with pytest.raises(TimeoutError):
            canary.accept()
    assert message.text == "done"


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#"}, id="a schema that is itself"),
        pytest.param({"properties": {"x": {"pattern": "^(a|aa)+$"}}}, id="a pattern that backtracks"),
    ],
)
async def test_undecidable_server_schema_blocks_no_call(schema, database):
    async def answer(_):
        return "done"

    message, _ = await _run(Tool("t", "d", schema, answer), database, x="a" * 90 + "!")
    assert message.text == "done"


async def test_invalid_arguments_are_named(database):
    async def answer(_):
        return "done"

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    message, _ = await _run(Tool("t", "d", schema, answer), database, n="x")
    assert message.text == "Error: n: 'x' is not of type 'integer'"


PREVIEWS = [
    pytest.param(799, 799, id="what is shorter is told whole"),
    pytest.param(800, 800, id="so is what is as long as a preview"),
    pytest.param(801, 800, id="what is longer is cut"),
]


@pytest.mark.parametrize(("length", "told"), PREVIEWS)
async def test_argument_and_result_previews_have_800_characters(length, told, database):
    async def answer(_):
        return "r" * length

    # The argument's JSON adds twelve characters to the text.
    message, frames = await _run(Tool("t", "d", OBJECT, answer), database, text="a" * (length - 12))
    (start,) = [frame for frame in frames if isinstance(frame, ToolStart)]
    (end,) = [frame for frame in frames if isinstance(frame, ToolEnd)]
    assert (len(start.arguments), len(end.result)) == (told, told)
    assert message.text == "r" * length, "the model gets the complete text"


STRICT = Policy.model_validate({"arguments": [{"tool": "pay", "schema": {"properties": {"n": {"maximum": 40}}}}]})
AMOUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("tool", "arguments", "policy", "problem"),
    [
        pytest.param("pay", {"n": 4}, Policy(), None, id="arguments that fit"),
        pytest.param("pay", {"n": 41}, STRICT, "maximum of 40", id="against the policy"),
        pytest.param("pay", {"n": "x"}, Policy(), "n: 'x' is not of type 'integer'", id="against the schema"),
        pytest.param("pay", {}, Policy(), "required property", id="a missing argument"),
        pytest.param("pay", {"n": 13}, Policy(), "thirteen is unlucky", id="the tool denies"),
        pytest.param("pay", {"n": 0}, Policy(), "the tool broke", id="the tool cannot decide"),
        pytest.param("sell", {"n": 4}, Policy(), "there is no tool 'sell'", id="an unknown tool"),
        pytest.param("pay", {"n": 4}, Policy.model_validate({"deny": ["pay"]}), "not allowed", id="a denied tool"),
    ],
)
async def test_edit_problem_names_what_is_wrong(database, tool, arguments, policy, problem):
    async def run(_):
        raise AssertionError("a check runs no tool")

    async def decide(call):
        1 / call.arguments["n"]
        return Deny("thirteen is unlucky") if call.arguments["n"] == 13 else Ask()

    context = TurnContext(
        TurnRequest("o", "c", "t", ""), lambda _: None, {"pay": Tool("pay", "d", AMOUNT, run, decide)}
    )
    found = await _calls(database, policy=policy).edit_problem(tool, arguments, context)
    assert (found is None) is (problem is None)
    assert problem is None or problem in found
