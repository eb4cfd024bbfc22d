"""Parsing of approvals, and the tools that require a person, for each owner."""

import json

import pytest

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import InterruptKind, TurnRequest
from fleetwright_agent.tools.approval_policy import governed_tools, may_approve, may_wait_for_approval
from fleetwright_agent.tools.human.approval import ApprovalReply, ask_request, read_reply
from fleetwright_agent.tools.human.questions import HumanTools, human_tools
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.port import Allow, Ask, Deny, Grant, Tool, ToolCall, strictest
from fleetwright_agent.turn.context import TurnContext

QUESTION = InterruptKind.QUESTION
CALL = ToolCall({}, TurnRequest("client:web", "c", "t", "x"), lambda _: None)


@pytest.mark.parametrize(
    ("reply", "yes"),
    [
        *(
            pytest.param(word, True, id=f"{word} is a yes")
            for word in ("approve", "approved", "yes", "y", "true", "ok")
        ),
        pytest.param(" Approved\n", True, id="case and spaces around do not matter"),
        pytest.param(True, True, id="true is a yes"),
        pytest.param({"approved": True}, True, id="an object that approves is a yes"),
        pytest.param({"decision": "approve"}, True, id="so is a decision"),
        pytest.param({"answer": "Yes"}, True, id="so is an answer"),
        pytest.param({"approved": False, "decision": "declined"}, False, id="an object that declines is a no"),
        pytest.param({"approved": False, "answer": "yes"}, False, id="an object that says both is a no"),
        pytest.param("no", False, id="no is a no"),
        pytest.param("", False, id="silence is a no"),
        pytest.param("yes, but only half of it", False, id="more than a yes is a no"),
        *(
            pytest.param(word, False, id=f"{word!r} is a no")
            for word in (
                "accept",
                "agreed",
                "allow",
                "confirm",
                "fine",
                "go",
                "okay",
                "sure",
                "yeah",
                "yep",
                "1",
                "t",
                "",
            )
        ),
        pytest.param("not ok", False, id="a no with a yes in it is a no"),
        pytest.param(1, False, id="a number is a no"),
        pytest.param(None, False, id="nothing is a no"),
        pytest.param(["yes"], False, id="a list is a no"),
        pytest.param({"approved": {"decision": {"answer": "ok"}}}, False, id="a yes within something is a no"),
        pytest.param({"city": "Ghent"}, False, id="an object about something else is a no"),
    ],
)
def test_read_reply_approves_only_a_plain_yes(reply, yes):
    assert read_reply(reply).approved is yes


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(
            {"approved": True, "arguments": {"n": 2.0, "x": [1.5, {"m": 3.0}]}},
            ApprovalReply(True, arguments={"n": 2, "x": [1.5, {"m": 3}]}),
            id="changed arguments, with whole numbers as integers",
        ),
        pytest.param({"approved": True, "arguments": {}}, ApprovalReply(True, arguments={}), id="no arguments at all"),
        pytest.param({"approved": True, "arguments": None}, ApprovalReply(True), id="arguments that are null"),
        pytest.param({"approved": True, "arguments": "n"}, ApprovalReply(False), id="arguments that are no object"),
        pytest.param(
            {"approved": False, "reason": " too much\n", "arguments": {"n": 2}},
            ApprovalReply(False, reason="too much"),
            id="a reason, and arguments that never run",
        ),
        pytest.param({"approved": False, "reason": 5}, ApprovalReply(False), id="a reason that is no text"),
        pytest.param(
            {"approved": False, "reason": "x" * 2000}, ApprovalReply(False, reason="x" * 1024), id="a long reason"
        ),
    ],
)
def test_read_reply_returns_reason_and_arguments(reply, expected):
    found = read_reply(reply)
    assert found == expected
    if found.arguments:
        assert all(type(value) is not float for value in (found.arguments["n"], found.arguments["x"][1]["m"]))


OWNERS = [
    pytest.param("client:web", {}, True, id="a client"),
    pytest.param("agent:team/peer", {}, False, id="an agent"),
    pytest.param("agent:team/peer", {"approvals": {"by": "Callers"}}, True, id="an agent where callers may approve"),
    pytest.param("agent:team/echo", {"approvals": {"by": "Callers"}}, False, id="the agent's own credential"),
    pytest.param("client:web", {"approvals": {"by": "Reviewers"}}, False, id="a client where reviewers decide"),
    pytest.param("agent:team/peer", {"approvals": {"by": "Reviewers"}}, False, id="an agent where reviewers decide"),
]


@pytest.mark.parametrize(("owner", "changes", "may"), OWNERS)
def test_may_approve_depends_on_the_caller(documents, owner, changes, may):
    assert may_approve(AgentConfig.model_validate(documents(**changes)), owner) is may


@pytest.mark.parametrize(
    ("owner", "by", "waits"),
    [
        pytest.param("client:web", "Clients", True, id="a client"),
        pytest.param("agent:team/peer", "Clients", False, id="an agent"),
        pytest.param("user:anna via agent:team/peer", "Clients", False, id="an agent for a person"),
        pytest.param("agent:team/echo", "Callers", False, id="the agent itself"),
        pytest.param("agent:team/peer", "Reviewers", True, id="an agent where reviewers decide"),
        pytest.param("agent:team/echo", "Reviewers", True, id="the agent itself where reviewers decide"),
    ],
)
def test_task_may_wait_if_somebody_can_approve(documents, owner, by, waits):
    config = AgentConfig.model_validate(documents(approvals={"by": by}))
    assert may_wait_for_approval(config, owner) is waits


@pytest.mark.parametrize(
    ("owner", "offered"),
    [
        pytest.param("client:web", ["ask_human", "request_user_input"], id="a client"),
        pytest.param("agent:team/peer", [], id="an agent"),
    ],
)
async def test_human_tools_are_offered_to_clients(owner, offered):
    context = TurnContext(TurnRequest(owner, "c", "t", "x"), lambda _: None, {})
    assert [tool.name for tool in await HumanTools().tools(context)] == offered


async def answer(call):
    return "done"


async def test_governed_tools_ask_if_the_policy_requires_it(documents):
    tools = {name: Tool(name, "d", {"type": "object"}, answer) for name in ("house__cook", "ask_cellar", "load_skill")}
    house = {"name": "house", "url": "http://h", "requireApproval": ["cook"]}
    config = AgentConfig.model_validate(documents(approvals={"tools": ["ask_cellar"]}, mcpServers=[house]))
    governed = governed_tools(tools, config, denies=lambda name: name == "load_skill")
    assert [type(await tool.decide(CALL)) for tool in governed.values()] == [Ask, Ask]


GRANT = Grant("rope", "more cuts of this rope")
DECISIONS = [
    pytest.param(Allow(), Allow(), Allow(), id="both allow"),
    pytest.param(Allow(), Ask("?"), Ask("?"), id="one asks"),
    pytest.param(Ask("?"), Allow(), Ask("?"), id="the other asks"),
    pytest.param(Ask("?", grants=(GRANT,)), Ask(), Ask("?"), id="a grant that only one offers is not offered"),
    pytest.param(Ask("?", "p", (GRANT,)), Ask("!", "q", (GRANT,)), Ask("?", "p", (GRANT,)), id="both offer a grant"),
    pytest.param(Ask(), Ask("?", "p"), Ask("?", "p"), id="the question that has words is shown"),
    pytest.param(Ask("?", kind=QUESTION), Ask(), Ask("?", kind=QUESTION), id="a question needs a person anyway"),
    pytest.param(Ask("?"), Deny("no"), Deny("no"), id="a denial is stricter than a question"),
    pytest.param(Deny("no"), Deny("never"), Deny("no"), id="the first of two denials"),
]


@pytest.mark.parametrize(("one", "other", "result"), DECISIONS)
def test_strictest_selects_the_stricter_decision(one, other, result):
    assert strictest(one, other) == result


async def test_human_tools_are_repeatable():
    assert all(tool.repeatable for tool in human_tools())


def test_ask_request_shows_all_arguments():
    arguments = {"text": "x" * 5000 + "\u202egnp\U000e0001.exe", "name": "Zoë"}
    ask = ask_request("house__cook", Ask(), arguments, agent="team/echo")
    assert ask.payload["detail"] == json.dumps({"text": "x" * 5000 + "@", "name": "Zoë"}, ensure_ascii=False).replace(
        "@", "\\u202egnp\\udb40\\udc01.exe"
    )
    assert ask.payload["detail"] in ask.prompt
    assert json.loads(ask.payload["detail"]) == arguments


def test_ask_request_shows_the_preview_and_the_grants():
    ask = ask_request("rope__cut", Ask("Cut it?", "- long\n+ short\u202e", (GRANT,)), {}, agent="team/echo")
    assert ask.prompt == (
        "Cut it?\n- long\n+ short\\u202e\n"
        "Answer yes to run it once, or always to allow more cuts of this rope in this conversation;"
        " anything else declines."
    )
    assert ask.payload == {
        "kind": "approval",
        "title": "Cut it?",
        "detail": "- long\n+ short\\u202e",
        "project": "team/echo",
        "grants": [{"key": "rope", "title": "more cuts of this rope"}],
    }


@pytest.mark.parametrize(
    ("reply", "approved", "grants"),
    [
        pytest.param("yes", True, (), id="a yes approves once"),
        pytest.param("Always", True, ("rope",), id="always gives the first grant"),
        pytest.param({"approved": True, "grant": "ropes"}, True, ("ropes",), id="data gives the grant that it names"),
        pytest.param({"approved": True, "grant": "boats"}, True, (), id="a grant that was not offered is not given"),
        pytest.param({"approved": False, "grant": "rope"}, False, (), id="a no gives no grant"),
        pytest.param({"grant": "rope"}, False, (), id="a grant alone approves nothing"),
    ],
)
def test_read_reply_returns_only_offered_grants(reply, approved, grants):
    assert read_reply(reply, ("rope", "ropes")) == ApprovalReply(approved, grants)


def test_read_reply_of_always_declines_without_grants():
    assert read_reply("always") == ApprovalReply(False)


def test_tool_cache_reports_approvals_of_missing_tools():
    server = McpServer.model_validate({"name": "house", "url": "http://h", "requireApproval": ["cok", "bake"]})
    offers = ToolCache()
    offers.put(server, offered={"cook", "bake"}, usable=2)
    assert offers.of("house").missing == ("cok",)
