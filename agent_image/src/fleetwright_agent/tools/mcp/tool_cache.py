"""A summary of the latest tool list of each MCP server, kept after the server becomes unreachable."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.tools.name_sanitizer import offered_name

_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class ServerTools:
    tools: int
    """The number of tools that the agent may use."""
    missing: tuple[str, ...] = ()
    """Tools that the spec names but the server does not offer: a typo, or another server version."""
    refused: tuple[str, ...] = ()
    """Tools that are not used, because their digest differs from the pinned one."""
    oversized: tuple[str, ...] = ()
    """Tools that are not used, because they would take too much of the context window."""


class ToolCache:
    def __init__(self) -> None:
        self._by_server: dict[str, ServerTools] = {}

    def put(
        self,
        server: McpServer,
        *,
        offered: Collection[str],
        usable: int,
        refused: Collection[str] = (),
        guarded: Collection[str] = (),
    ) -> None:
        missing = sorted(({*server.allow} - {*offered} - {*server.deny}) | unoffered_tools(server, offered, guarded))
        self._by_server[server.name] = ServerTools(usable, tuple(missing[:_MOST]), tuple(sorted(refused)[:_MOST]))

    def exclude(self, server: str, oversized: Collection[str]) -> None:
        """Record which tools of the newest list are not used because of their size."""
        offer = self._by_server.get(server)
        if offer is not None and oversized:
            usable = offer.tools - len(oversized)
            self._by_server[server] = replace(offer, tools=usable, oversized=tuple(sorted(oversized)[:_MOST]))

    def of(self, server: str) -> ServerTools | None:
        return self._by_server.get(server)


def unoffered_tools(server: McpServer, offered: Collection[str], guarded: Collection[str] = ()) -> frozenset[str]:
    """Return the tools that need approval or that a rule restricts, but that the server does not offer."""
    known = {_as_called(server, tool) for tool in (*offered, *server.deny)}
    named = {*server.require_approval, *guarded}
    return frozenset(tool for tool in named if _as_called(server, tool) not in known)


def _as_called(server: McpServer, tool: str) -> str:
    """Return the name that the model uses. The configuration of approvals may also use this name."""
    return offered_name(f"{server.name}__{tool}")
