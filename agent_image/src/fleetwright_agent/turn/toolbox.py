"""The tools of one turn: the agent's own, those of its reachable MCP servers, and those that ask people.

Tools that enforcement denies are not offered.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.mcp.prompt_share import tools_over_share
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.port import Tool, ToolError
from fleetwright_agent.turn.approval_policy import is_remembered, of_uncertain_plugins, with_human_tools
from fleetwright_agent.turn.compaction.policy import room
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.compaction.recall import recall_tool
from fleetwright_agent.turn.views import Views

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnTools:
    tools: dict[str, Tool]
    unreachable: dict[str, str]
    """MCP servers whose tools could not be listed, each with the reason."""


class Toolbox:
    def __init__(
        self,
        config: AgentConfig,
        *,
        tools: Sequence[Tool],
        personal: Sequence[Tool] = (),
        servers: Sequence[McpConnection],
        views: Views,
        denies: Callable[[str], bool],
        offers: ToolCache,
    ) -> None:
        """Args:
        personal: Tools that only remembered callers get.
        offers: Records which tools are omitted because of their size.
        """
        self._config = config
        self._tools = tuple(tools)
        self._personal = tuple(personal)
        self._servers = tuple(servers)
        self._views = views
        self._denies = denies
        self._offers = offers
        self._measured: tuple[int, tuple[tuple[Tool, ...], ...]] = (0, ())
        self._oversized: frozenset[str] = frozenset()

    async def equipment(self, request: TurnRequest, *, beside: Sequence[Tool] = ()) -> TurnTools:
        """Return all tools of this turn; an unreachable server removes only its own tools.

        Args: `beside` are tools that exist for this turn only.
        """
        found = await asyncio.gather(*(server.tools() for server in self._servers), return_exceptions=True)
        personal = self._personal if is_remembered(request) else ()
        tools = {tool.name: tool for tool in (*self._tools, *personal, *beside)}
        unreachable: dict[str, str] = {}
        uncertain = set(of_uncertain_plugins(tools, self._config))
        for server, listed in zip(self._servers, found, strict=True):
            if isinstance(listed, McpUnreachable | ToolError):
                unreachable[server.name] = str(listed)
                _log.warning("MCP server %s: %s", server.name, listed)
            elif isinstance(listed, Exception):
                unreachable[server.name] = "sent an invalid list of tools"
                _log.warning("MCP server %s: its list of tools cannot be read", server.name, exc_info=listed)
            elif isinstance(listed, BaseException):
                raise listed
            else:
                tools |= {tool.name: tool for tool in listed}
                uncertain |= {tool.name for tool in listed if server.is_uncertain}
        self._measure([listed for listed in found if isinstance(listed, tuple)])
        tools = {name: tool for name, tool in tools.items() if name not in self._oversized}
        offered = with_human_tools(tools, self._config, request.owner, uncertain=uncertain)
        return TurnTools({name: tool for name, tool in offered.items() if not self._denies(name)}, unreachable)

    def _measure(self, lists: Sequence[tuple[Tool, ...]]) -> None:
        """Decide which tools are too large, once for each change of a server's list or of the model's known window."""
        measured = (room(self._config.model), tuple(lists))
        if measured == self._measured:
            return
        self._measured = measured
        tools = [tool for listed in lists for tool in listed]
        dropped = tools_over_share(tools, room=measured[0], shares_prompt=self._config.tool_search is None)
        self._oversized = frozenset(dropped)
        for server in self._servers:
            prefix = f"{server.name}__"
            names = [name.removeprefix(prefix) for name in dropped if name.startswith(prefix)]
            self._offers.exclude(server.name, names)
        if dropped:
            _log.warning("tools of MCP servers are omitted because they are too large", extra={"tools": dict(dropped)})

    def recall(self, thread: str) -> Tool | None:
        """The tool that searches the messages compaction archived, if the configuration allows it."""
        if not self._config.compaction.archive.recall_tool or self._denies(RECALL):
            return None

        async def archived() -> Sequence[AnyMessage]:
            return await self._views.archived(thread)

        return recall_tool(archived)

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers))
