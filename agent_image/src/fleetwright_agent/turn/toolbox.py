"""The tools of one turn: the agent's own, those of its servers as far as they answer, and those that ask people.

Refuses: offering a tool that enforcement denies.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from langchain_core.messages import AnyMessage

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.memory.views import Views
from fleetwright_agent.tools.mcp import McpConnection
from fleetwright_agent.tools.mcp_wire import McpUnreachable
from fleetwright_agent.tools.port import Tool, ToolError
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.compaction.recall import recall_tool
from fleetwright_agent.turn.frames import TurnRequest
from fleetwright_agent.turn.people import is_remembered, of_uncertain_plugins, with_people

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Equipment:
    tools: dict[str, Tool]
    unreachable: dict[str, str]
    """MCP servers that could not be asked for their tools, with the reason."""


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
    ) -> None:
        """Args: `personal` are tools that a caller has only where something is remembered of it."""
        self._config = config
        self._tools = tuple(tools)
        self._personal = tuple(personal)
        self._servers = tuple(servers)
        self._views = views
        self._denies = denies

    async def equipment(self, request: TurnRequest, *, beside: Sequence[Tool] = ()) -> Equipment:
        """Every tool of this turn; a server that cannot be reached takes only its own tools away.

        Args: `beside` are tools that were made for this turn alone.
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
                unreachable[server.name] = "sent what is no list of tools"
                _log.warning("MCP server %s: its list of tools cannot be read", server.name, exc_info=listed)
            elif isinstance(listed, BaseException):
                raise listed
            else:
                tools |= {tool.name: tool for tool in listed}
                uncertain |= {tool.name for tool in listed if server.is_uncertain}
        offered = with_people(tools, self._config, request.owner, uncertain=uncertain)
        return Equipment({name: tool for name, tool in offered.items() if not self._denies(name)}, unreachable)

    def recall(self, thread: str) -> Tool | None:
        """Searches what compaction put aside of that conversation, where the model may."""
        if not self._config.compaction.archive.recall_tool or self._denies(RECALL):
            return None

        async def archived() -> Sequence[AnyMessage]:
            return await self._views.archived(thread)

        return recall_tool(archived)

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers))
