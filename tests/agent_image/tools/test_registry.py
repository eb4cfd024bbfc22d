"""The registry of tools: names, order, and providers that fail."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
from prometheus_client import CollectorRegistry
from tests.support.agent.call_records import call_records

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.peers.tool import PeerTools
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.tools.registry import ToolRegistry, built_in_providers
from fleetwright_agent.turn.context import TurnContext

CONTEXT = TurnContext(TurnRequest("client:a", "c", "t", "x"), lambda _: None, {})


async def run(_):
    return "done"


def tool(name, description=""):
    return Tool(name, description, {"type": "object"}, run)


@dataclass
class Provider:
    name: str
    listed: list
    fails: Exception | None = None
    closed: int = 0

    async def tools(self, context):
        if self.fails:
            raise self.fails
        return self.listed

    async def close(self):
        self.closed += 1


PEER = {"name": "cook", "namespace": "team", "url": "http://cook"}
SKILL = {"name": "guide", "description": "d", "digest": "x"}
ENABLED = [
    pytest.param({}, [], id="nothing"),
    pytest.param({"askHuman": True}, ["human"], id="people"),
    pytest.param({"skills": [SKILL]}, ["skills"], id="skills"),
    pytest.param({"memory": {"knowledge": {"enabled": True}}}, ["facts"], id="facts"),
    pytest.param({"toolSearch": {"above": 1}}, ["search"], id="the search"),
    pytest.param({"peers": [PEER]}, ["peers"], id="peers"),
    pytest.param({"workspace": {"url": "http://w:1"}}, ["workspace"], id="the workspace"),
    pytest.param({"mcpServers": [{"name": "house", "url": "http://h"}]}, ["mcp"], id="MCP servers"),
]


@pytest.mark.parametrize(("changes", "names"), ENABLED)
async def test_built_in_providers_are_those_that_are_enabled(documents, tmp_path, changes, names):
    config, layout, none = AgentConfig.model_validate(documents(**changes)), Layout(root=tmp_path), None
    providers = built_in_providers(
        config,
        layout,
        facts=none,
        workspace=Provider("workspace", []) if config.workspace else None,
        redact=str,
        peers=PeerTools("team/echo", config.peers, layout, none, none, records=call_records()),
        tool_cache=ToolCache(),
        metrics=Metrics(CollectorRegistry()),
        room=lambda: 1000,
    )
    assert [provider.name for provider in providers] == names


async def test_registry_sorts_the_tools_of_all_providers():
    registry = ToolRegistry([Provider("one", [tool("b"), tool("d")]), Provider("two", [tool("c"), tool("a")])])
    assert list(await registry.tools(CONTEXT)) == ["a", "b", "c", "d"]


async def test_registry_uses_the_tool_of_the_earlier_provider(caplog):
    registry = ToolRegistry([Provider("one", [tool("a", "first")]), Provider("two", [tool("a", "second")])])
    assert (await registry.tools(CONTEXT))["a"].description == "first"
    (record,) = caplog.records
    assert (record.message, record.tool, record.omitted) == ("two tools have the same name", "a", "two")


async def test_registry_omits_only_the_tools_of_a_failed_provider(caplog):
    registry = ToolRegistry([Provider("one", [], RuntimeError("no")), Provider("two", [tool("a")])])
    assert list(await registry.tools(CONTEXT)) == ["a"]
    assert "the tools of a provider cannot be listed" in caplog.text


async def test_registry_applies_the_policy_last():
    registry = ToolRegistry([Provider("one", [tool("a"), tool("b")])], policy=lambda tools: {"b": tools["b"]})
    assert list(await registry.tools(CONTEXT)) == ["b"]


async def test_registry_closes_every_provider():
    providers = [Provider("one", []), Provider("two", [])]
    await ToolRegistry(providers).close()
    assert [provider.closed for provider in providers] == [1, 1]


WITHOUT_OTHER_AGENTS = """
import sys
from types import SimpleNamespace as Fake
import fleetwright_agent.turn.assembly
from fleetwright_agent.turn.other_agents import other_agents

config = Fake(peers=(), gateway=None)
assert other_agents(Fake(config=config, storage=None), redact=str, sleep=None).closing == ()
print(*sys.modules, sep="\\n")
"""


@pytest.fixture(scope="module")
def imported_modules(process_ring):
    """The modules that are imported in a process that has built the tools of other agents for an agent without any."""
    ended = subprocess.run([sys.executable, "-c", WITHOUT_OTHER_AGENTS], check=True, capture_output=True, text=True)
    return set(ended.stdout.splitlines())


@pytest.mark.parametrize("module", ["mcp", "a2a.client", "fleetwright_agent.turn.compaction.text"])
def test_turn_imports_no_module_of_absent_tools_and_steps(imported_modules, module):
    """Each of these imports would delay the first answer of an agent that a message wakes."""
    assert "fleetwright_agent.turn.assembly" in imported_modules
    assert module not in imported_modules
