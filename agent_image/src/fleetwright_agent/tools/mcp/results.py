"""Converts the result of an MCP tool to text for a model: text stays text, other content becomes JSON. Pure.

Binary content is left out: a model cannot read a base64 image, which would only fill its context window.
"""

import json
from typing import Any, Final

from mcp.types import AudioContent, CallToolResult, ContentBlock, EmbeddedResource, ImageContent, TextContent
from mcp.types import BlobResourceContents as Blob
from mcp.types import TextResourceContents as Text

_MOST_CHARACTERS: Final = 50_000


def result_text(result: CallToolResult) -> str:
    text = "\n".join(map(_told, result.content))
    if not text.strip() and result.structuredContent is not None:
        # The MCP specification asks servers to repeat structured content as text, but not all servers do.
        text = json.dumps(result.structuredContent, ensure_ascii=False)
    if len(text) > _MOST_CHARACTERS:
        return f"{text[:_MOST_CHARACTERS]}\n[cut: {len(text)} characters in all]"
    return text


def _told(block: ContentBlock) -> str:
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, EmbeddedResource) and isinstance(block.resource, Text):
        return f"{block.resource.uri}:\n{block.resource.text}"
    said: dict[str, Any] = block.model_dump(mode="json", exclude_none=True)
    if isinstance(block, ImageContent | AudioContent):
        said["data"] = _size(block.data)
    elif isinstance(block, EmbeddedResource) and isinstance(block.resource, Blob):
        said["resource"]["blob"] = _size(block.resource.blob)
    return json.dumps(said, ensure_ascii=False)


def _size(base64: str) -> str:
    return f"{len(base64.rstrip('=')) * 3 // 4} bytes, left out"
