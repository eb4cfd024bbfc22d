"""MCP servers over streamable HTTP, each session in a task of its own.

The stock adapters let a dying server cancel the caller's task and one dead server hide the tools of all.
Here callers only wait on futures: a session that breaks fails its calls with a word and is opened again,
once per call. Results are capped and are data (PA-104).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import CallToolResult, TextContent

from fleetwright_agent.config import McpServer
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError

_DISCOVERY_SECONDS = 20.0
_CALL_SECONDS = 300.0
_MOST_CHARACTERS = 50_000
_MOST_TOOLS = 500
T = TypeVar("T")
_Work = Callable[[ClientSession], Awaitable[Any]]


class McpUnreachable(Exception):  # noqa: N818 - reads as the state of the server
    """The server cannot be spoken to; the message says how that showed, without addresses."""


class McpConnection:
    """One server: connects at the first use, again after a break, and offers its allowed tools."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._actor: asyncio.Task[None] | None = None
        self._work: asyncio.Queue[tuple[_Work, asyncio.Future[Any]]] = asyncio.Queue()
        self._tools: tuple[Tool, ...] | None = None

    @property
    def name(self) -> str:
        return self._server.name

    async def tools(self) -> tuple[Tool, ...]:
        """The allowed tools, asked for once per session.

        Raises:
            McpUnreachable: No list within the time.
        """
        if self._tools is None or self._actor is None or self._actor.done():
            listed = await self._within(_DISCOVERY_SECONDS, lambda session: session.list_tools())
            allowed = [tool for tool in listed.tools[:_MOST_TOOLS] if self._allows(tool.name)]
            self._tools = tuple(self._tool(tool.name, tool.description or "", tool.inputSchema) for tool in allowed)
        return self._tools

    def _allows(self, name: str) -> bool:
        if name in self._server.deny:
            return False
        return not self._server.allow or name in self._server.allow

    def _tool(self, name: str, description: str, schema: Mapping[str, Any]) -> Tool:
        async def run(call: ToolCall) -> str:
            arguments = dict(call.arguments)
            limit = timedelta(seconds=_CALL_SECONDS)
            try:
                result = await self._within(_CALL_SECONDS, lambda s: s.call_tool(name, arguments, limit))
            except McpUnreachable as error:
                raise ToolError(f"the server {self.name} {error}") from error
            text = _text(result)
            if result.isError:
                raise ToolError(text)
            return text

        return Tool(f"{self.name}__{name}", description, schema, run)

    async def _within(self, seconds: float, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Runs one request on the session; a session found broken is opened anew once."""
        for last in (False, True):
            try:
                async with asyncio.timeout(seconds):
                    return await self._request(work)
            except TimeoutError:
                raise McpUnreachable(f"did not answer within {seconds:.0f} s") from None
            except McpError as error:
                raise ToolError(f"the server {self.name} refused: {error.error.message[:500]}") from error
            except McpUnreachable:
                if last:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _request(self, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        if self._actor is None or self._actor.done():
            self._work = asyncio.Queue()
            self._actor = asyncio.create_task(self._live(self._work))
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work.put_nowait((work, future))
        waiting: set[asyncio.Future[Any]] = {future, self._actor}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered = future.done()
            future.cancel()
        if answered:
            return future.result()
        raise McpUnreachable("cannot be reached")

    async def _live(self, inbox: asyncio.Queue[tuple[_Work, asyncio.Future[Any]]]) -> None:
        """Owns the session: whatever breaks inside it ends here, never in a caller's task."""
        running: set[asyncio.Task[None]] = set()
        try:
            async with (
                streamable_http_client(self._server.url) as (read, write, _),
                ClientSession(read, write) as session,
            ):
                await session.initialize()
                while True:
                    work, future = await inbox.get()
                    task = asyncio.create_task(_answer(session, work, future))
                    running.add(task)
                    task.add_done_callback(running.discard)
        except Exception:  # noqa: S110 - any break of the session means the same: callers see it end
            pass
        finally:
            for task in running:
                task.cancel()

    async def aclose(self) -> None:
        if self._actor is not None:
            self._actor.cancel()
            await asyncio.gather(self._actor, return_exceptions=True)


async def _answer(session: ClientSession, work: _Work, future: asyncio.Future[Any]) -> None:
    call = asyncio.ensure_future(work(session))
    # A caller that gave up cancels its future; the request goes with it.
    future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
    try:
        result = await call
    except McpError as error:
        if not future.done():
            # The client reports a closed connection as an error of the protocol.
            broken = error.error.message == "Connection closed"
            future.set_exception(McpUnreachable("closed the connection") if broken else error)
    except asyncio.CancelledError:
        if not future.done():
            future.set_exception(McpUnreachable("closed the connection"))
        raise
    except Exception as error:
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)


def _text(result: CallToolResult) -> str:
    pieces = [
        block.text if isinstance(block, TextContent) else json.dumps(block.model_dump(mode="json", exclude_none=True))
        for block in result.content
    ]
    text = "\n".join(pieces)
    if len(text) > _MOST_CHARACTERS:
        return f"{text[:_MOST_CHARACTERS]}\n[cut: {len(text)} characters in all]"
    return text
