"""Parsing of approvals, and the tools that require a person, for each owner."""

import json

import pytest

from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.tools.human.approval import approval, approved, human_tools
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.approval_policy import with_human_tools


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
        pytest.param("not ok", False, id="a no with a yes in it is a no"),
        pytest.param(1, False, id="a number is a no"),
        pytest.param(None, False, id="nothing is a no"),
        pytest.param(["yes"], False, id="a list is a no"),
        pytest.param({"approved": {"decision": {"answer": "ok"}}}, False, id="a yes within something is a no"),
        pytest.param({"city": "Ghent"}, False, id="an object about something else is a no"),
    ],
)
def test_only_a_plain_yes_approves(reply, yes):
    assert approved(reply) is yes


async def answer(call):
    return "done"


TOOLS = {name: Tool(name, "d", {"type": "object"}, answer) for name in ("house__cook", "ask_cellar", "load_skill")}


@pytest.mark.parametrize(
    ("owner", "changes", "asking", "asks"),
    [
        pytest.param("client:web", {}, set(), set(), id="nobody is asked where nothing says so"),
        pytest.param(
            "client:web", {"askHuman": True}, {"ask_human", "request_user_input"}, set(), id="clients are asked"
        ),
        pytest.param("agent:team/peer", {"askHuman": True}, set(), set(), id="agents are not asked"),
        pytest.param(
            "client:web",
            {
                "approvals": {"tools": ["ask_cellar"]},
                "mcpServers": [{"name": "house", "url": "http://h", "requireApproval": ["cook"]}],
            },
            set(),
            {"ask_cellar", "house__cook"},
            id="what needs approval is named in two places",
        ),
        pytest.param(
            "agent:team/peer", {"approvals": {"tools": ["ask_cellar"]}}, set(), set(), id="an agent approves nothing"
        ),
        pytest.param(
            "agent:team/peer",
            {"approvals": {"tools": ["ask_cellar"], "by": "Callers"}},
            set(),
            {"ask_cellar"},
            id="where callers may, another agent may",
        ),
        pytest.param(
            "agent:team/echo",
            {"approvals": {"tools": ["ask_cellar"], "by": "Callers"}},
            set(),
            set(),
            id="an agent never approves by its own credential",
        ),
    ],
)
def test_who_is_asked_what(mounted, documents, owner, changes, asking, asks):
    mounted.write(mounted.layout.config_file, documents(**changes))
    tools = with_human_tools(TOOLS, mounted.config(), owner)
    assert set(tools) - set(TOOLS) == asking
    assert {name for name in TOOLS if tools[name].asks is not None} == asks


def test_the_tools_that_ask_have_no_effects_of_their_own():
    assert all(tool.repeatable and tool.asks for tool in human_tools())


def test_whoever_approves_sees_all_that_will_run():
    arguments = {"text": "x" * 5000 + "\u202egnp\U000e0001.exe", "name": "Zoë"}
    ask = approval("house__cook", arguments, agent="team/echo")
    assert ask.payload["detail"] == json.dumps({"text": "x" * 5000 + "@", "name": "Zoë"}, ensure_ascii=False).replace(
        "@", "\\u202egnp\\udb40\\udc01.exe"
    )
    assert ask.payload["detail"] in ask.prompt
    assert json.loads(ask.payload["detail"]) == arguments


def test_an_approval_of_a_tool_that_its_server_does_not_offer_is_told():
    server = McpServer.model_validate({"name": "house", "url": "http://h", "requireApproval": ["cok", "bake"]})
    offers = ToolCache()
    offers.put(server, offered={"cook", "bake"}, usable=2)
    assert offers.of("house").missing == ("cok",)
