"""A plugin for Fleetwright's agents: a tool that converts lengths to feet."""

from collections.abc import Mapping
from typing import Any

from fleetwright_agent.plugins.api import Call, Plugin, PluginTool, ToolError

_FEET = 3.28084
_PARAMETERS = {
    "properties": {"metres": {"type": "number", "description": "The length"}},
    "required": ["metres"],
    "additionalProperties": False,
}


def plugin(config: Mapping[str, Any]) -> Plugin:
    """Return the plugin. The runtime calls this once with `config` of the Agent. Its status reports exceptions."""
    digits = config.get("digits", 2)
    if not isinstance(digits, int) or not 0 <= digits <= 9:
        raise ValueError("digits must be a whole number from 0 to 9")

    async def metres_to_feet(call: Call) -> str:
        metres = call.arguments["metres"]
        if metres < 0:
            raise ToolError("metres must not be negative; ask for the length")
        return f"{metres} metres are {metres * _FEET:.{digits}f} feet."

    tool = PluginTool(
        name="metres_to_feet",
        description="Convert a length from metres to feet.",
        parameters=_PARAMETERS,
        run=metres_to_feet,
        repeatable=True,
    )
    return Plugin(tools=(tool,))
