"""The tools of all MCP servers of an agent. If a server is unreachable, only its own tools are missing.

Tool descriptions come from the servers and may be long. Tools that would take too much of the prompt are left out.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.approval_policy import guarded_by_policy, servers_of
from fleetwright_agent.tools.human.approval import with_approval
from fleetwright_agent.tools.mcp.circuit_breaker import CircuitBreaker
from fleetwright_agent.tools.mcp.prompt_share import tools_over_share
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.port import Tool, ToolContext, ToolError

_log = logging.getLogger(__name__)


class McpTools:
    name = "mcp"

    def __init__(
        self,
        servers: Sequence[McpConnection],
        tool_cache: ToolCache,
        *,
        room: Callable[[], int],
        shares_prompt: bool,
    ) -> None:
        """Args:
        tool_cache: Records which tools are omitted because of their size.
        room: Returns the number of tokens that a prompt may have. It changes when the provider states the model's
            context window.
        shares_prompt: False if the model has to search for tools.
        """
        self._servers = tuple(servers)
        self._tool_cache = tool_cache
        self._room = room
        self._shares_prompt = shares_prompt
        self._measured: tuple[int, tuple[tuple[Tool, ...], ...]] = (0, ())
        self._oversized: frozenset[str] = frozenset()

    async def tools(self, context: ToolContext) -> list[Tool]:
        found = await asyncio.gather(*(server.tools() for server in self._servers), return_exceptions=True)
        tools: list[Tool] = []
        for server, listed in zip(self._servers, found, strict=True):
            if isinstance(listed, tuple):
                tools += map(with_approval, listed) if server.is_uncertain else listed
            else:
                context.unreachable[server.name] = _reason(server.name, listed)
        self._measure([listed for listed in found if isinstance(listed, tuple)])
        return [tool for tool in tools if tool.name not in self._oversized]

    def _measure(self, lists: Sequence[tuple[Tool, ...]]) -> None:
        """Decide which tools are too large, if a server's tool list or the size of the prompt has changed."""
        measured = (self._room(), tuple(lists))
        if measured == self._measured:
            return
        self._measured = measured
        tools = [tool for listed in lists for tool in listed]
        dropped = tools_over_share(tools, room=measured[0], shares_prompt=self._shares_prompt)
        self._oversized = frozenset(dropped)
        for server in self._servers:
            prefix = f"{server.name}__"
            names = [name.removeprefix(prefix) for name in dropped if name.startswith(prefix)]
            self._tool_cache.exclude(server.name, names)
        if dropped:
            _log.warning("tools of MCP servers are omitted because they are too large", extra={"tools": dict(dropped)})

    async def close(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers))


def mcp_connections(
    config: AgentConfig, layout: Layout, *, tool_cache: ToolCache, metrics: Metrics
) -> list[McpConnection]:
    """Return a connection for each server of the configuration, without connecting."""
    return [
        McpConnection(
            server,
            layout,
            tool_cache=tool_cache,
            guarded=guarded_by_policy(config, server.name),
            denied=config.denied_ranges,
            breaker=_breaker(server.name, metrics),
        )
        for server in servers_of(config)
    ]


def _breaker(server: str, metrics: Metrics) -> CircuitBreaker:
    is_open = metrics.mcp_breaker_open.labels(server)
    return CircuitBreaker(on_change=lambda opened: is_open.set(int(opened)))


def _reason(server: str, error: BaseException) -> str:
    """Log the failure, and return the reason that the prompt states."""
    if isinstance(error, McpUnreachable | ToolError):
        _log.warning("MCP server %s: %s", server, error)
        return str(error)
    if isinstance(error, Exception):
        _log.warning("MCP server %s: its list of tools cannot be read", server, exc_info=error)
        return "sent an invalid list of tools"
    raise error
