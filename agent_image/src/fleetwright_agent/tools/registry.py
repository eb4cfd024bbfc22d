"""The registry of tools, which collects the tools of all providers for a turn.

To add a built-in provider, add it to `built_in_providers`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fleetwright_a2a.lazy_import import fast_imports
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.storage.facts import FactStore
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.human.questions import HumanTools
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.memory.fact_tools import FactTools
from fleetwright_agent.tools.port import Tool, ToolContext, ToolProvider
from fleetwright_agent.tools.search.tool import SearchTools
from fleetwright_agent.tools.skills.loading import SkillTools

Policy = Callable[[dict[str, Tool]], dict[str, Tool]]
_log = logging.getLogger(__name__)


def built_in_providers(
    config: AgentConfig,
    layout: Layout,
    *,
    facts: FactStore,
    workspace: ToolProvider | None,
    redact: Callable[[str], str],
    peers: ToolProvider | None,
    tool_cache: ToolCache,
    metrics: Metrics,
    room: Callable[[], int],
) -> tuple[ToolProvider, ...]:
    """Return the providers of the built-in tools that the configuration enables, in the order of precedence.

    Args:
        workspace: The tools of the workspace; None without a workspace.
        redact: Removes secrets from a fact.
        peers: The tools that call declared peers; None if the agent calls no other agent.
        tool_cache: Receives the tool list of each MCP server.
        room: Returns the number of tokens that a prompt may have.
    """
    providers: tuple[tuple[bool, ToolProvider], ...] = (
        (config.ask_human, HumanTools()),
        *([(True, workspace)] if workspace is not None else []),
        (bool(config.skills), SkillTools(config.skills, layout)),
        (config.memory.knowledge.enabled, FactTools(facts, config.memory.knowledge, redact)),
        (config.tool_search is not None, SearchTools()),
        *([(bool(config.peers), peers)] if peers is not None else []),
    )
    mcp = _mcp_tools(config, layout, tool_cache=tool_cache, metrics=metrics, room=room) if config.mcp_servers else ()
    return (*(provider for is_enabled, provider in providers if is_enabled), *mcp)


def _mcp_tools(
    config: AgentConfig, layout: Layout, *, tool_cache: ToolCache, metrics: Metrics, room: Callable[[], int]
) -> tuple[ToolProvider, ...]:
    # Imported lazily: importing the MCP SDK takes a sixth of the time to load a turn.
    with fast_imports():
        from fleetwright_agent.tools.mcp.provider import McpTools, mcp_connections

    connections = mcp_connections(config, layout, tool_cache=tool_cache, metrics=metrics)
    return (McpTools(connections, tool_cache, room=room, shares_prompt=config.tool_search is None),)


class ToolRegistry:
    def __init__(self, providers: Sequence[ToolProvider], *, policy: Policy = dict) -> None:
        """Args:
        providers: The sources of tools. If two tools have the same name, the earlier provider's is used.
        policy: The agent's policy, which removes tools or makes them stricter.
        """
        self._providers = tuple(providers)
        self._policy = policy

    async def tools(self, context: ToolContext) -> dict[str, Tool]:
        """Return the tools for this turn, sorted by name. If a provider fails, only its own tools are missing."""
        lists = await asyncio.gather(*(_listed(provider, context) for provider in self._providers))
        tools: dict[str, Tool] = {}
        for provider, listed in zip(self._providers, lists, strict=True):
            for tool in listed:
                if tool.name in tools:
                    _log.warning("two tools have the same name", extra={"tool": tool.name, "omitted": provider.name})
                else:
                    tools[tool.name] = tool
        return self._policy(dict(sorted(tools.items())))

    async def close(self) -> None:
        """Close all providers."""
        await asyncio.gather(*(provider.close() for provider in self._providers))


async def _listed(provider: ToolProvider, context: ToolContext) -> Sequence[Tool]:
    try:
        return await provider.tools(context)
    except Exception:
        _log.exception("the tools of a provider cannot be listed", extra={"provider": provider.name})
        return ()
