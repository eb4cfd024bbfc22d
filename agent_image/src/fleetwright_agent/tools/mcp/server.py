"""The tools of one MCP server, over reconnecting sessions.

With common MCP adapters, a server that fails cancels the caller's task and hides the tools of all other servers. Here,
a broken session is reopened, and the list of tools is requested again. A tool call is repeated only if the server
cannot have processed it, because its effect must not happen twice. Results are truncated.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import timedelta
from typing import TypeVar

from mcp import ClientSession
from mcp.shared.exceptions import McpError
from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest
from mcp.types import Tool as Listed

from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.mcp.circuit_breaker import CircuitBreaker
from fleetwright_agent.tools.mcp.results import result_text
from fleetwright_agent.tools.mcp.session import SessionActor
from fleetwright_agent.tools.mcp.tool_cache import ToolCache, unoffered_tools
from fleetwright_agent.tools.mcp.tool_listing import every_page, is_read_only, tool_digest
from fleetwright_agent.tools.mcp.wire import CALL_SECONDS, Arrival, McpUnreachable
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError

_DISCOVERY_SECONDS = 20.0
_LIST_SECONDS = 60.0
_SILENCE_SECONDS = 30.0
# The pauses before each attempt, in seconds. A restarted server is usually available again within their sum.
_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
T = TypeVar("T")


class _Lost(ToolError):  # noqa: N818 - describes the outcome of the call
    """The server did not answer."""


class McpConnection:
    """One server: connects on first use, reconnects after a failure, and offers the allowed tools."""

    def __init__(
        self,
        server: McpServer,
        layout: Layout,
        *,
        tool_cache: ToolCache | None = None,
        guarded: Collection[str] = (),
        denied: tuple[Network, ...] = (),
        breaker: CircuitBreaker | None = None,
        discovery_seconds: float = _DISCOVERY_SECONDS,
        pauses: Sequence[float] = _PAUSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        tool_cache: Receives every tool list.
        guarded: The tools of the server that the agent's policy names.
        """
        self._server = server
        self._layout = layout
        self._denied = denied
        self._tool_cache = tool_cache or ToolCache()
        self._guarded = tuple(guarded)
        self._breaker = breaker or CircuitBreaker(clock=clock)
        self._discovery_seconds = discovery_seconds
        self._pauses = tuple(pauses)
        self._clock = clock
        self._actor: SessionActor | None = None
        self._tools: tuple[Tool, ...] | None = None
        self._uncertain = False
        self._fresh = False
        self._listed = 0.0
        self._silent_until = 0.0

    @property
    def name(self) -> str:
        return self._server.name

    @property
    def is_uncertain(self) -> bool:
        """True if the newest list lacks a tool that the configuration restricts.

        The server may then offer the intended tool under another name.
        """
        return self._uncertain

    async def tools(self) -> tuple[Tool, ...]:
        """Return the allowed tools. The list is requested in each new session, after a change, and once a minute.

        If the server is unreachable, a list younger than a minute is used, so that its restart removes no tools.

        Raises:
            McpUnreachable: No list arrived. After a timeout, the server is not asked again for a while.
        """
        now = self._clock()
        if now < self._silent_until:
            raise McpUnreachable(self._silence())
        young = self._tools is not None and now - self._listed < _LIST_SECONDS
        if self._tools is not None and young and self._fresh and self._actor is not None and not self._actor.ended:
            return self._tools
        try:
            self._tools, self._listed, self._fresh = self._offer(await self._list()), now, True
        except TimeoutError:
            self._silent_until = self._clock() + _SILENCE_SECONDS
            raise McpUnreachable(self._silence()) from None
        except McpUnreachable:
            if not young or self._tools is None:
                raise
        return self._tools

    async def aclose(self) -> None:
        if self._actor is not None:
            await self._actor.aclose()

    def _silence(self) -> str:
        return f"did not answer within {self._discovery_seconds:g} s"

    async def _list(self) -> list[Listed]:
        """Request the list. If the session is broken, request it once more in a new session."""
        try:
            return await self._within(self._discovery_seconds, every_page)
        except McpUnreachable:
            return await self._within(self._discovery_seconds, every_page)

    def _offer(self, listed: Sequence[Listed]) -> tuple[Tool, ...]:
        pinned = self._server.pinned
        refused = [] if pinned is None else [tool.name for tool in listed if pinned.get(tool.name) != tool_digest(tool)]
        usable = [tool for tool in listed if self._allows(tool.name) and tool.name not in refused]
        offered = {tool.name for tool in listed}
        self._uncertain = bool(unoffered_tools(self._server, offered, self._guarded))
        self._tool_cache.put(self._server, offered=offered, usable=len(usable), refused=refused, guarded=self._guarded)
        return tuple(self._tool(tool) for tool in usable)

    def _allows(self, name: str) -> bool:
        if name in self._server.deny:
            return False
        return not self._server.allow or name in self._server.allow

    def _tool(self, listed: Listed) -> Tool:
        async def run(call: ToolCall) -> str:
            params = CallToolRequestParams(name=listed.name, arguments=dict(call.arguments))
            result = await self._call(ClientRequest(CallToolRequest(params=params)))
            text = result_text(result)
            if result.isError:
                raise ToolError(text)
            return text

        name = offered_name(f"{self.name}__{listed.name}")
        action = None if is_read_only(listed) else CallerAction.USE_WRITE_TOOLS
        return Tool(name, listed.description or "", listed.inputSchema, run, deferrable=True, action=action)

    async def _call(self, request: ClientRequest) -> CallToolResult:
        if rest := self._breaker.rest():
            raise ToolError(f"the server {self.name} failed again and again and is left alone for {rest:.0f} s more")
        try:
            result = await self._called(request)
        except _Lost:
            self._breaker.failed()
            raise
        except ToolError:
            self._breaker.succeeded()
            raise
        self._breaker.succeeded()
        return result

    async def _called(self, request: ClientRequest) -> CallToolResult:
        limit = timedelta(seconds=CALL_SECONDS)
        broken: McpUnreachable | None = None
        for pause in self._pauses:
            await asyncio.sleep(pause)
            try:
                # Do not use `call_tool`: it also requests the list of tools. A failure of that request would look like
                # a failure of this call.
                return await self._within(CALL_SECONDS, lambda s: s.send_request(request, CallToolResult, limit))
            except TimeoutError:
                raise _Lost(f"the server {self.name} did not answer within {CALL_SECONDS:g} s") from None
            except McpUnreachable as error:
                if error.arrival is Arrival.UNKNOWN:
                    lost = "whether the call took effect is not known"
                    raise _Lost(f"the server {self.name} {error}; {lost}") from error
                again = broken is None or error.arrival is Arrival.NONE
                broken = error
                if not again:
                    break  # The server rejected the call again, so another session or a longer wait would not help.
        raise _Lost(f"the server {self.name} {broken}") from broken

    async def _within(self, seconds: float, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Run one request in the session. If no session exists, open a new one.

        Raises:
            TimeoutError: No answer arrived within `seconds`.
            McpUnreachable: The session broke.
        """
        if self._actor is None or self._actor.ended:
            self._fresh = False
            self._actor = SessionActor(
                self._server,
                self._layout,
                seconds=self._discovery_seconds,
                on_change=self._outdate,
                denied=self._denied,
            )
        actor = self._actor
        try:
            async with asyncio.timeout(seconds):
                return await actor.request(work)
        except McpError as error:
            raise ToolError(f"the server {self.name} refused: {error.error.message[:500]}") from error
        except McpUnreachable:
            if self._actor is actor:
                self._actor = None
            raise

    def _outdate(self) -> None:
        self._fresh = False
