"""The tool `webfetch`. The text of a page is data; nothing in it grants anything."""

from typing import Final

from fleetwright_agent.config.workspace import WorkspaceTool
from fleetwright_agent.tools.port import Tool, ToolCall
from fleetwright_agent.tools.workspace import schemas
from fleetwright_agent.tools.workspace.web.page_fetcher import PageFetcher
from fleetwright_agent.tools.workspace.web.page_text import page_text

_MOST_URL: Final = 4096
_SECONDS: Final = 30
_MOST_SECONDS: Final = 120
_MOST_BYTES: Final = 2 * 1024 * 1024


def web_tools(fetcher: PageFetcher) -> dict[WorkspaceTool, Tool]:
    async def fetch(call: ToolCall) -> str:
        seconds, form = call.arguments.get("timeout_seconds", _SECONDS), call.arguments.get("format", "markdown")
        page = await fetcher.fetch(str(call.arguments["url"]), seconds=seconds)
        text = page_text(page.text, markdown=form == "markdown") if page.is_html and form != "html" else page.text
        return _cut(text) or "[The page has no text.]"

    url = schemas.text("The http or https URL of the page", least=1, most=_MOST_URL)
    form = {"type": "string", "enum": ["text", "markdown", "html"], "description": "markdown by default"}
    seconds = schemas.count(f"Time limit; {_SECONDS} by default", least=1, most=_MOST_SECONDS)
    return {
        WorkspaceTool.WEBFETCH: Tool(
            WorkspaceTool.WEBFETCH,
            "Read a web page of one of the hosts that this agent may read.",
            schemas.arguments({"url": url}, {"format": form, "timeout_seconds": seconds}),
            fetch,
            repeatable=True,
        )
    }


def _cut(text: str) -> str:
    body = text.encode(errors="replace")
    if len(body) <= _MOST_BYTES:
        return text
    return f"{body[:_MOST_BYTES].decode(errors='ignore')}\n[The page is longer; the rest is cut.]"
