"""An MCP server with one slow tool, for scenarios. It prints a line for each call, before it answers.

`SECONDS` is the duration of a call.
"""

import asyncio
import os

import uvicorn
from mcp.server.fastmcp import FastMCP

server = FastMCP("tracker", host="0.0.0.0", stateless_http=True, json_response=True)


@server.tool(description="Track a parcel by its number.")
async def track_parcel(parcel: str) -> str:
    print(f"called {parcel}", flush=True)
    await asyncio.sleep(float(os.environ["SECONDS"]))
    return f"{parcel} is in Oslo."


uvicorn.run(server.streamable_http_app(), host="0.0.0.0", port=int(os.environ["PORT"]), log_level="warning")
