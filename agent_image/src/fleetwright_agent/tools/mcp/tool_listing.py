"""Lists the tools of an MCP server: all pages, within bounds, each tool with a digest.

The digest covers the text that a model sees. A tool with a changed description is therefore treated as another tool.
"""

import hashlib
import json
from collections.abc import Iterable

from mcp import ClientSession
from mcp.types import PaginatedRequestParams, Tool

MOST_TOOLS = 256
_MOST_PAGES = 50
_MOST_CHARACTERS = 8 * 1024 * 1024
"""The limit for all pages together; the last page may exceed it."""
_PROMISES = {"name", "title", "description", "inputSchema", "outputSchema", "annotations"}


async def every_page(session: ClientSession, *, most: int = MOST_TOOLS) -> list[Tool]:
    """Return the tools of all pages, up to `most`."""
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
    """Return the digest of a tool's name, texts and schemas, independent of the order of keys."""
    return _digest(tool.model_dump(mode="json", by_alias=True, exclude_none=True, include=_PROMISES))


def is_read_only(tool: Tool) -> bool:
    """Return True if the server declares that the tool changes nothing.

    Only the roles of callers depend on this. It is a claim of the server, so no call is repeated because of it.
    """
    return tool.annotations is not None and tool.annotations.readOnlyHint is True


def tools_digest(digests: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a whole list from the name and digest of each tool, independent of their order."""
    return _digest(sorted(digests))


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
