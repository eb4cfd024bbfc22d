"""Selects the tools of a turn that a sub-agent may use. Pure.

A tool that needs a person is replaced by one that declines, because a sub-agent cannot ask. The agent can call it.
"""

from collections.abc import Mapping
from dataclasses import replace

from fleetwright_agent.config.sub_agents import DELEGATING, SubAgent
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolDeclined


def shared_tools(tools: Mapping[str, Tool], sub_agent: SubAgent) -> dict[str, Tool]:
    """The listed tools that the turn has. Tools that are denied to the agent, or unreachable, are not included."""
    allowed = {offered_name(name) for name in sub_agent.tools} - DELEGATING
    return {name: _unasking(tool) for name, tool in tools.items() if name in allowed}


def _unasking(tool: Tool) -> Tool:
    if tool.asks is None:
        return tool

    async def refuse(_: ToolCall) -> str:
        raise ToolDeclined(f"{tool.name} needs a person, and a sub-agent asks nobody; say so in your answer")

    return replace(tool, asks=None, run=refuse, repeatable=True)
