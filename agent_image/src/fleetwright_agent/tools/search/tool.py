"""The tool search: if an agent has many tools, the model sees a few of them and searches for the others.

The tools that earlier searches found are read from the conversation, so they stay available after a restart and in
later turns.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fleetwright_agent.config.tools import ToolSearch
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext
from fleetwright_agent.tools.search.ranking import fitting, words

NAME: Final = "search_tools"
_DESCRIPTION: Final = (
    "Find tools by words for what they do. You see only some of the tools that you have; those that are found can be"
    " called from then on."
)
_FOUND: Final = "These tools can be called from now on:"
_LISTED: Final = re.compile(r"^- ([A-Za-z0-9_-]{1,64})(?:: |$)", re.MULTILINE)
_MOST: Final = 8
_MOST_CHARACTERS: Final = 300


class SearchTools:
    """Offers the tool `search_tools`."""

    name = "search"

    async def tools(self, context: ToolContext) -> list[Tool]:
        return [search_tool(lambda: context.tools)]

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def search_tool(tools: Callable[[], Mapping[str, Tool]]) -> Tool:
    """Return the tool `search_tools`. Args: `tools` returns the tools of the turn."""

    async def search(call: ToolCall) -> str:
        found = matching([tool for tool in tools().values() if tool.deferrable], call.arguments["query"])
        listed = [f"- {tool.name}: {' '.join(tool.description.split())[:_MOST_CHARACTERS]}" for tool in found]
        return "\n".join([_FOUND, *listed]) if listed else "No tool has these words; try others."

    query = {"type": "string", "minLength": 1, "maxLength": 500, "description": "What the tool should do"}
    parameters = {"type": "object", "properties": {"query": query}, "required": ["query"]}
    return Tool(NAME, _DESCRIPTION, parameters | {"additionalProperties": False}, search, repeatable=True)


def matching(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the tools that match the query best, in descending order of their scores."""
    texts = [Counter(_terms(f"{tool.name} {tool.description}")) for tool in tools]
    best = sorted(fitting(texts, list(dict.fromkeys(_terms(query)))), key=lambda found: -found[0])
    return [tools[place] for _, place in best[:_MOST]]


def listed(result: str) -> list[str]:
    """Return the tool names in a result of the search."""
    return _LISTED.findall(result) if result.startswith(_FOUND) else []


def deferred_tools(tools: Mapping[str, Tool], policy: ToolSearch) -> frozenset[str]:
    """Return the names of the tools that the model does not see.

    These are the deferred tools. If there are too few tools to defer any, it is only the search tool.
    """
    deferrable = {name for name, tool in tools.items() if tool.deferrable}
    if len(deferrable) <= policy.above:
        return frozenset({NAME})
    return frozenset(deferrable - set(map(offered_name, policy.always)))


def _terms(text: str) -> list[str]:
    """Return the words without a plural `s`, so that a search for "orders" finds "order"."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words(text)]
