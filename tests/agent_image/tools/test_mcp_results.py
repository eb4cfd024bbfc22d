"""Conversion of MCP tool results to the text that the model reads."""

import base64
from typing import Any

import pytest
from mcp.types import CallToolResult

from fleetwright_agent.tools.mcp.results import result_text

PICTURE = base64.b64encode(b"x" * 100_000).decode()
TEXT = {"type": "text", "text": "Two chairs."}


def read(*content: dict[str, Any], **more: Any) -> str:
    return result_text(CallToolResult.model_validate({"content": [*content], **more}))


@pytest.mark.parametrize(
    ("content", "more", "text"),
    [
        pytest.param([TEXT, TEXT], {}, "Two chairs.\nTwo chairs.", id="texts are joined"),
        pytest.param([], {"structuredContent": {"n": "zwölf"}}, '{"n": "zwölf"}', id="data alone is told"),
        pytest.param([TEXT], {"structuredContent": {"n": 2}}, "Two chairs.", id="data is not told twice"),
        pytest.param([], {}, "", id="nothing is nothing"),
        pytest.param(
            [TEXT, {"type": "image", "mimeType": "image/png", "data": PICTURE}],
            {},
            'Two chairs.\n{"type": "image", "data": "100000 bytes, left out", "mimeType": "image/png"}',
            id="of a picture its size",
        ),
        pytest.param(
            [{"type": "resource", "resource": {"uri": "file:///a.txt", "text": "one\ntwo"}}],
            {},
            "file:///a.txt:\none\ntwo",
            id="a file of text as text",
        ),
        pytest.param(
            [{"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "eHg="}}],
            {},
            '{"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "2 bytes, left out"}}',
            id="of another file its size",
        ),
    ],
)
def test_mcp_result_becomes_text_without_binary_data(content, more, text):
    assert read(*content, **more) == text


def test_mcp_result_is_truncated_and_marked():
    text = read({"type": "text", "text": "x" * 50_001})
    assert text == "x" * 50_000 + "\n[cut: 50001 characters in all]"
