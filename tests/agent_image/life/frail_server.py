"""An MCP server process whose one tool never returns a usable result: it exits, or writes an oversized result.

Every call appends a line to the file that the command line names. This module contains no tests.
"""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

port, calls, end = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
TOOL = {
    "name": "water_plants",
    "description": "Water the plants.",
    "inputSchema": {"type": "object", "properties": {"litres": {"type": "integer"}}, "required": ["litres"]},
}
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "garden", "version": "1"},
}


async def flood() -> AsyncIterator[bytes]:
    yield b'{"jsonrpc":"2.0","result":"'
    while True:
        yield b"x" * 65536


async def post(request: Request) -> Response:
    message = await request.json()
    if "id" not in message:
        return Response(status_code=202)
    if message["method"] == "tools/call":
        with calls.open("a") as file:  # noqa: ASYNC230 - one line
            file.write("watered\n")
        if end == "dies":
            os._exit(1)
        return StreamingResponse(flood(), media_type="application/json")
    result = {"tools": [TOOL]} if message["method"] == "tools/list" else HELLO
    return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})


async def none(_: Request) -> Response:
    return Response(status_code=405)


app = Starlette(routes=[Route("/mcp", post, methods=["POST"]), Route("/mcp", none)])
uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")
