"""The registry of tools: names, order, and providers that fail."""

from dataclasses import dataclass

from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.tools.registry import ToolRegistry
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
