"""The action that the role of a caller must allow before a tool is called, for each kind of tool."""

from types import SimpleNamespace

import pytest
from mcp import types
from tests.support.agent.call_records import call_records

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.memory import KnowledgeMemory
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.config.workspace import EditApproval, Shell, ShellApproval
from fleetwright_agent.plugins.api import Plugin, PluginTool
from fleetwright_agent.plugins.offering import plugin_tools
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.human.questions import human_tools
from fleetwright_agent.tools.mcp.tool_listing import is_read_only
from fleetwright_agent.tools.memory.fact_tools import knowledge_tools
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.workspace.commands import CommandTools
from fleetwright_agent.tools.workspace.edits import EditTools
from fleetwright_agent.tools.workspace.files import FileTools
from fleetwright_agent.tools.workspace.todos import TodoTools
from fleetwright_agent.tools.workspace.web.tool import web_tools
from fleetwright_agent.turn.context import TurnContext

NOTHING = SimpleNamespace()
"""A store or client that is not used while tools are declared."""
WRITES = CallerAction.USE_WRITE_TOOLS


def actions(tools):
    return {str(tool.name): tool.action for tool in tools}


def test_workspace_tools_that_change_something_need_an_action():
    found = actions(
        [
            *FileTools(NOTHING, NOTHING).tools().values(),
            *EditTools(NOTHING, NOTHING, EditApproval.ASK).tools().values(),
            *CommandTools(NOTHING, ShellApproval.TIERED, Shell()).tools().values(),
            *TodoTools(NOTHING).tools().values(),
            *web_tools(NOTHING).values(),
        ]
    )
    assert {name for name, action in found.items() if action is WRITES} == {"write_file", "edit_file", "bash"}
    assert {name for name, action in found.items() if action is None} == {
        "read_file", "list_directory", "search_files", "todo_read", "todo_write", "webfetch",
    }  # fmt: skip


def test_tools_for_facts_need_the_actions_of_memory():
    assert actions(knowledge_tools(NOTHING, KnowledgeMemory(), str)) == {
        "remember": CallerAction.WRITE_MEMORY,
        "forget": CallerAction.WRITE_MEMORY,
        "recall_memory": CallerAction.READ_MEMORY,
    }


def test_tools_for_questions_need_no_action():
    assert actions(human_tools()) == {"ask_human": None, "request_user_input": None}


async def test_tool_of_a_peer_needs_delegation(tmp_path):
    peer = Peer(name="cook", namespace="team", url="http://cook")
    tools = PeerTools("team/echo", [peer], Layout(root=tmp_path), NOTHING, NOTHING, records=call_records())
    context = TurnContext(TurnRequest("client:a", "c", "t", "x"), print, {})
    assert actions(await tools.tools(context)) == {"ask_cook": CallerAction.DELEGATE}


def test_plugin_tool_needs_an_action_unless_repeatable():
    async def run(_):
        return ""

    about = {"description": "d", "parameters": {}, "run": run}
    tools = (PluginTool(name="cut", **about), PluginTool(name="look", **about, repeatable=True))
    assert actions(plugin_tools("rope", Plugin(tools=tools))) == {"rope__cut": WRITES, "rope__look": None}


@pytest.mark.parametrize(
    ("annotations", "wanted"),
    [
        (None, False),
        ({}, False),
        ({"readOnlyHint": False}, False),
        ({"readOnlyHint": True}, True),
        ({"idempotentHint": True, "destructiveHint": False}, False),
    ],
)
def test_tool_of_a_server_is_read_only_if_the_server_says_so(annotations, wanted):
    tool = types.Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, "annotations": annotations})
    assert is_read_only(tool) is wanted
