"""Converts a plugin's tools for the model loop: prefixed with the plugin's name, limited in time and size.

This module is pure apart from the calls. It rejects tools whose name or schema no provider accepts.
"""

import asyncio
import re
from typing import Final

from fleetwright_agent.config.base import checked_schema
from fleetwright_agent.plugins.api import Call, Plugin, PluginTool
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECONDS: Final = 300.0
_MOST_CHARACTERS: Final = 50_000
_MOST_TOOLS: Final = 100


class InvalidPlugin(Exception):  # noqa: N818 - states what became of the plugin
    """The plugin's tools cannot be used; the text names the problem."""


def plugin_tools(name: str, plugin: object, *, seconds: float = _SECONDS) -> tuple[Tool, ...]:
    """Return the tools of a plugin.

    Args:
        seconds: The time limit of one call.

    Raises:
        NotOffered: One of the tools is invalid; then none is used.
    """
    if not isinstance(plugin, Plugin):
        raise InvalidPlugin(f"its factory returned {type(plugin).__name__}, not fleetwright_agent.plugins.api.Plugin")
    if len(plugin.tools) > _MOST_TOOLS:
        raise InvalidPlugin(f"it provides {len(plugin.tools)} tools; at most {_MOST_TOOLS} are allowed")
    tools = [_tool(name, tool, seconds) for tool in plugin.tools]
    if len({tool.name for tool in tools}) < len(tools):
        raise InvalidPlugin("two of its tools have the same name")
    return tuple(tools)


def _tool(plugin: str, tool: PluginTool, seconds: float) -> Tool:
    if not _NAME.fullmatch(tool.name):
        raise InvalidPlugin(f"the name of its tool {tool.name!r} must have 1 to 64 letters, digits, '_' or '-'")
    try:
        checked_schema(tool.parameters)
    except ValueError as error:
        raise InvalidPlugin(f"the parameters of its tool {tool.name!r} cannot be used: {error}") from None
    if tool.parameters.get("type", "object") != "object":
        raise InvalidPlugin(f"the parameters of its tool {tool.name!r} must have type object")

    async def run(call: ToolCall) -> str:
        turn = call.turn
        try:
            async with asyncio.timeout(seconds) as limit:
                text = await tool.run(Call(call.arguments, turn.owner, turn.context_id, turn.task_id))
        except TimeoutError:
            if limit.expired():
                raise ToolError(f"{tool.name} did not answer within {seconds:g} s") from None
            raise
        if not isinstance(text, str):
            raise ToolError(f"{tool.name} gave {type(text).__name__} in place of text")
        return _cut(text)

    name = offered_name(f"{plugin}__{tool.name}")
    parameters = {"type": "object", **tool.parameters}
    return Tool(name, tool.description, parameters, run, repeatable=tool.repeatable, deferrable=True)


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}\n[cut: {len(text)} characters in all]"
