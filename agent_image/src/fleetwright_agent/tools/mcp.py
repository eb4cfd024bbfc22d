"""MCP servers over streamable HTTP, each session in a task of its own.

The stock adapters let a dying server cancel the caller's task and one dead server hide the tools of all.
Here callers only wait on futures: a session that breaks fails its calls with a word and is opened again,
once per call. Results are capped and are data (PA-104).
"""

import asyncio
import contextlib
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import (
    CallToolRequest,
    CallToolResult,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    PaginatedRequestParams,
    ServerNotification,
    TextContent,
    ToolListChangedNotification,
)
from mcp.types import Tool as Listed

from fleetwright_agent.config import McpServer
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError

_DISCOVERY_SECONDS = 20.0
_CALL_SECONDS = 300.0
_MOST_CHARACTERS = 50_000
_MOST_TOOLS = 500
_MOST_PAGES = 50
_LIST_SECONDS = 60.0
_SILENCE_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_NOTICE_SECONDS = 1.0
# What chat-completions providers accept as the name of a tool; one name they refuse costs the whole request.
_LONGEST_NAME = 64
_BROKEN = frozenset({"Connection closed", "Session terminated"})
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
T = TypeVar("T")
_Work = Callable[[ClientSession], Awaitable[Any]]


class McpUnreachable(Exception):  # noqa: N818 - reads as the state of the server
    """The server cannot be spoken to; the message says how that showed, without addresses."""


class McpConnection:
    """One server: connects at the first use, again after a break, and offers its allowed tools."""

    def __init__(
        self,
        server: McpServer,
        *,
        discovery_seconds: float = _DISCOVERY_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._discovery_seconds = discovery_seconds
        self._clock = clock
        self._actor: asyncio.Task[None] | None = None
        self._work: asyncio.Queue[tuple[_Work, asyncio.Future[Any]]] = asyncio.Queue()
        self._tools: tuple[Tool, ...] | None = None
        self._listed = 0.0
        self._silent_until = 0.0

    @property
    def name(self) -> str:
        return self._server.name

    async def tools(self) -> tuple[Tool, ...]:
        """The allowed tools, asked for once per session, after a change, and once a minute.

        Raises:
            McpUnreachable: No list within the time; a server that kept silent is left alone for a while.
        """
        now = self._clock()
        if now < self._silent_until:
            raise McpUnreachable(self._silence())
        known = self._tools
        if known is None or self._actor is None or self._actor.done() or now - self._listed >= _LIST_SECONDS:
            try:
                listed = await self._within(self._discovery_seconds, _every_page)
            except TimeoutError:
                self._silent_until = self._clock() + _SILENCE_SECONDS
                raise McpUnreachable(self._silence()) from None
            allowed = [tool for tool in listed if self._allows(tool.name)]
            known = tuple(self._tool(tool.name, tool.description or "", tool.inputSchema) for tool in allowed)
            self._tools, self._listed = known, now
        return known

    def _silence(self) -> str:
        return f"did not answer within {self._discovery_seconds:g} s"

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
            except TimeoutError:
                raise ToolError(f"the server {self.name} did not answer within {_CALL_SECONDS:g} s") from None
            except McpUnreachable as error:
                raise ToolError(f"the server {self.name} {error}") from error
            text = _text(result)
            if result.isError:
                raise ToolError(text)
            return text

        return Tool(_offered(f"{self.name}__{name}"), description, schema, run)

    async def _within(self, seconds: float, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        """Runs one request on the session; a session found broken is opened anew once.

        Raises:
            TimeoutError: No answer within the time.
        """
        for last in (False, True):
            try:
                async with asyncio.timeout(seconds):
                    return await self._request(work)
            except McpError as error:
                raise ToolError(f"the server {self.name} refused: {error.error.message[:500]}") from error
            except McpUnreachable:
                if last:
                    raise
        raise AssertionError("the loop returns or raises")

    async def _request(self, work: Callable[[ClientSession], Awaitable[T]]) -> T:
        if self._actor is None or self._actor.done():
            self._work, self._tools = asyncio.Queue(), None
            self._actor = asyncio.create_task(self._live(self._work))
        actor = self._actor
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work.put_nowait((work, future))
        waiting: set[asyncio.Future[Any]] = {future, actor}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            answered = future.done()
            future.cancel()
        if not answered:
            raise McpUnreachable("cannot be reached")
        if isinstance(future.exception(), McpUnreachable):
            actor.cancel()
            if self._actor is actor:
                self._actor = None
        return future.result()

    async def _live(self, inbox: asyncio.Queue[tuple[_Work, asyncio.Future[Any]]]) -> None:
        """Owns the session: whatever breaks inside it ends here, never in a caller's task."""
        running: set[asyncio.Task[None]] = set()
        try:
            async with (
                _http_client() as client,
                streamable_http_client(self._server.url, http_client=client) as (read, write, _),
                _Session(read, write, message_handler=self._heard) as session,
            ):
                async with asyncio.timeout(self._discovery_seconds):
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

    async def _heard(self, message: object) -> None:
        if isinstance(message, ServerNotification) and isinstance(message.root, ToolListChangedNotification):
            self._tools = None

    async def aclose(self) -> None:
        if self._actor is not None:
            self._actor.cancel()
            await asyncio.gather(self._actor, return_exceptions=True)


class _Session(ClientSession):
    """Tells the server when nobody waits for a call any more; the stock session only stops listening."""

    async def send_request(self, request: Any, *args: Any, **options: Any) -> Any:
        identity = self._request_id
        try:
            return await super().send_request(request, *args, **options)
        except asyncio.CancelledError:
            if isinstance(request.root, CallToolRequest):
                params = CancelledNotificationParams(requestId=identity, reason="the caller gave up")
                notice = ClientNotification(CancelledNotification(params=params))
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(_NOTICE_SECONDS):
                        await self.send_notification(notice)
            raise


def _http_client() -> httpx.AsyncClient:
    """Takes nothing from the environment. Redirects are followed by the protocol's client, on the same origin only."""
    return httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(_CALL_SECONDS, connect=_CONNECT_SECONDS))


async def _every_page(session: ClientSession) -> list[Listed]:
    tools: list[Listed] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.nextCursor
        if cursor is None or len(tools) >= _MOST_TOOLS:
            break
    return tools[:_MOST_TOOLS]


def _offered(name: str) -> str:
    """The name as a provider accepts it; one that had to change ends with a hash, so that two stay apart."""
    plain = _FOREIGN.sub("_", name)
    if plain == name and len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST_NAME - len(mark) - 1]}_{mark}"


async def _answer(session: ClientSession, work: _Work, future: asyncio.Future[Any]) -> None:
    call = asyncio.ensure_future(work(session))
    # A caller that gave up cancels its future; the request goes with it.
    future.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
    try:
        result = await call
    except McpError as error:
        if not future.done():
            # The client reports the end of a connection or of a session as an error of the protocol.
            broken = error.error.message in _BROKEN
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
