"""MCP servers with scripted tools."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from e2e.cluster.ports import free_port
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.http_server import serve_app


class ToolServer:
    """A server that returns its tool list in pages; the tool `wait` ends when the client cancels it."""

    def __init__(self, *names: str, page: int = 2) -> None:
        self.page = page
        self.names = list(names)
        self.waiting, self.cancelled = asyncio.Event(), asyncio.Event()

    def app(self) -> Starlette:
        server: Server[None] = Server("tools")
        server.request_handlers[types.ListToolsRequest] = self._page
        server.call_tool(validate_input=False)(self._call)
        manager = StreamableHTTPSessionManager(server)

        @asynccontextmanager
        async def life(_: Starlette) -> AsyncIterator[None]:
            async with manager.run():
                yield

        return Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=life)

    async def _page(self, request: types.ListToolsRequest | None) -> types.ServerResult:
        # The SDK's server also lists the tools internally, without a request.
        start = int(request.params.cursor or 0) if request and request.params else 0
        shown = [
            types.Tool(name=name, inputSchema={"type": "object"}) for name in self.names[start : start + self.page]
        ]
        more = str(start + self.page) if start + self.page < len(self.names) else None
        return types.ServerResult(types.ListToolsResult(tools=shown, nextCursor=more))

    async def _call(self, name: str, _: dict[str, Any]) -> list[types.TextContent]:
        if name == "wait":
            self.waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled.set()
        return [types.TextContent(type="text", text=f"from {name}")]


@asynccontextmanager
async def serve_tools(tools: ToolServer, *, port: int = 0) -> AsyncIterator[int]:
    """Serve the tools, and yield the port."""
    # A port that the kernel chooses could belong to another program when a test serves on it again.
    listener = socket.create_server(("127.0.0.1", port or free_port()))
    async with serve_app(tools.app(), listener) as found:
        yield found
