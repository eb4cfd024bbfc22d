"""Converts a plugin's tools for the model loop, with the plugin's name as a prefix and limits for time and size.

This module rejects tools whose name or schema no model provider accepts.
"""

import asyncio
import re
from collections.abc import Awaitable
from typing import Final, TypeVar

from fleetwright_agent.config.base import checked_schema
from fleetwright_agent.plugins.api import Call, Plugin, PluginTool
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import Allow, Ask, Decision, Deny, Tool, ToolCall, ToolError, ToolResult

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECONDS: Final = 300.0
_MOST_CHARACTERS: Final = 50_000
_MOST_TOOLS: Final = 100
_MOST_GRANTS: Final = 10
_MOST_ARTIFACTS: Final = 20
_MOST_OF_ARTIFACT: Final = 1024 * 1024
T = TypeVar("T")


class InvalidPlugin(Exception):  # noqa: N818 - describes the plugin
    """The plugin's tools cannot be used; the text names the problem."""


def plugin_tools(name: str, plugin: object, *, seconds: float = _SECONDS) -> tuple[Tool, ...]:
    """Return the tools of a plugin.

    Args:
        seconds: The time limit of one call.

    Raises:
        InvalidPlugin: One of the tools is invalid; the agent then uses none of the plugin's tools.
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

    async def run(call: ToolCall) -> ToolResult:
        result = await _within(seconds, tool.name, tool.run(_plugin_call(call)))
        if isinstance(result, ToolResult):
            return _checked_result(result)
        if not isinstance(result, str):
            raise ToolError(f"{tool.name} gave {type(result).__name__} in place of text")
        return ToolResult(_cut(result))

    async def decide(call: ToolCall) -> Decision:
        return _checked_decision(tool.name, await _within(seconds, tool.name, tool.decide(_plugin_call(call))))

    name = offered_name(f"{plugin}__{tool.name}")
    parameters = {"type": "object", **tool.parameters}
    action = None if tool.repeatable else CallerAction.USE_WRITE_TOOLS
    return Tool(
        name, tool.description, parameters, run, decide, repeatable=tool.repeatable, deferrable=True, action=action
    )


def _plugin_call(call: ToolCall) -> Call:
    turn = call.turn
    return Call(call.arguments, turn.owner, turn.context_id, turn.task_id, call.write)


async def _within(seconds: float, tool: str, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if limit.expired():
            raise ToolError(f"{tool} did not answer within {seconds:g} s") from None
        raise


def _checked_decision(tool: str, decision: object) -> Decision:
    """Return the decision of a plugin if it is valid; otherwise, raise ToolError, so that the tool does not run."""
    if not isinstance(decision, Allow | Ask | Deny):
        raise ToolError(f"{tool} decided {type(decision).__name__} in place of Allow, Ask or Deny")
    if isinstance(decision, Ask):
        if decision.kind is not InterruptKind.APPROVAL:
            raise ToolError(f"{tool} asks for a {decision.kind}; a plugin asks for approvals only")
        if len(decision.question) + len(decision.preview) > _MOST_CHARACTERS or len(decision.grants) > _MOST_GRANTS:
            raise ToolError(f"{tool} asks for more than a person can read")
    return decision


def _checked_result(result: ToolResult) -> ToolResult:
    """Return the result within its limits. The text mentions artifacts that exceed a limit and were omitted."""
    kept = [each for each in result.artifacts[:_MOST_ARTIFACTS] if len(each.content) <= _MOST_OF_ARTIFACT]
    left_out = len(result.artifacts) - len(kept)
    note = f"\n[{left_out} artifacts are too large or too many and were left out]" if left_out else ""
    return ToolResult(f"{_cut(result.text)}{note}", tuple(kept))


def _cut(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}\n[cut: {len(text)} characters in all]"
