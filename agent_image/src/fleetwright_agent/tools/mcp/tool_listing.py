"""The tools that an MCP server offers: all pages of them, within bounds, each with a digest of what it promises.

A digest covers what a model is told of a tool, so a tool that keeps its name and changes its words is another tool.
"""

import hashlib
import json
from collections.abc import Iterable

from mcp import ClientSession
from mcp.types import PaginatedRequestParams, Tool

MOST_TOOLS = 256
_MOST_PAGES = 50
_MOST_CHARACTERS = 8 * 1024 * 1024
"""Of all pages together, the last of them beyond it."""
_PROMISES = {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}
# What chat-completions providers accept as the name of a tool; one name they refuse costs the whole request.


async def every_page(session: ClientSession, *, most: int = MOST_TOOLS) -> list[Tool]:
    """As many as fit."""
    tools: list[Tool] = []
    cursor: str | None = None
    characters = 0
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor, characters = page.nextCursor, characters + len(page.model_dump_json())
        if cursor is None or len(tools) >= most or characters > _MOST_CHARACTERS:
            break
    return tools[:most]


def tool_digest(tool: Tool) -> str:
    """The same for equal promises, in whatever order their parts are written."""
    return _digest(tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=_PROMISES))


def tools_digest(digests: Iterable[tuple[str, str]]) -> str:
    """Of a whole list, from (name, digest) of each; the order of a list means nothing."""
    return _digest(sorted(digests))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
