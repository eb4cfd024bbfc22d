"""A server process of MCP's HTTP+SSE transport, with one stream for all responses. Not a test.

The second call never ends. Every call appends a line to the file that the command line names.
"""

import asyncio
import sys
from pathlib import Path

import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

server: Server = Server("older")
calls = Path(sys.argv[2])


@server.list_tools()
async def tools() -> list[types.Tool]:
    return [types.Tool(name="add", inputSchema={"type": "object"})]


@server.call_tool()
async def call(name: str, arguments: object) -> list[types.TextContent]:
    with calls.open("a") as file:  # noqa: ASYNC230 - one line
        file.write(f"{name}\n")
    if len(calls.read_text().splitlines()) == 2:  # noqa: ASYNC240 - one line
        await asyncio.sleep(3600)
    return [types.TextContent(type="text", text="done")]


transport = SseServerTransport("/messages/")


async def stream(request: Request) -> Response:
    async with transport.connect_sse(request.scope, request.receive, request._send) as streams:
        await server.run(*streams, server.create_initialization_options())
    return Response()


app = Starlette(routes=[Route("/sse", stream), Mount("/messages/", transport.handle_post_message)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical")
