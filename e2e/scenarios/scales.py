"""An MCP server with one tool, for scenarios.

`PROMISE` is the description of the tool. If `TOKENS` is set, the server accepts only requests whose Authorization
header is one of these values.
"""

import os
from typing import Any

import uvicorn
from mcp.server.fastmcp import Context, FastMCP
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import Response

tokens = [token for token in os.environ.get("TOKENS", "").split(",") if token]
server = FastMCP("scales", host="0.0.0.0")


@server.tool(description=os.environ.get("PROMISE", "Weigh a parcel."))
def weigh_parcel(parcel: str, context: Context[Any, Any, Request]) -> str:
    request = context.request_context.request
    return f"{parcel} weighs 3 kg, with {request.headers.get('authorization') if request else None}."


async def guard(request: Request, go_on: RequestResponseEndpoint) -> Response:
    if tokens and request.headers.get("authorization") not in tokens:
        return Response(status_code=401)
    return await go_on(request)


app = server.streamable_http_app()
app.add_middleware(BaseHTTPMiddleware, dispatch=guard)
uvicorn.run(app, host="0.0.0.0", port=int(os.environ["PORT"]), log_level="warning")
