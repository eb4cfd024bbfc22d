"""What a plugin is made of: all that code of others may rely on here, and all that it may give is tools.

A package names a factory as an entry point of the group `fleetwright.plugins`. The factory takes the configuration of
the Agent's `spec.plugins` and returns a `Plugin`; it runs on a thread of its own, without an event loop.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_agent.tools.port import ToolError

__all__ = ["GROUP", "Call", "Factory", "Plugin", "PluginTool", "ToolError"]

GROUP: Final = "fleetwright.plugins"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, by the model of one turn."""

    arguments: Mapping[str, Any]
    """They fit the tool's schema."""
    caller: str
    """Whose turn it is: `client:<name>` or `agent:<namespace>/<name>`."""
    context_id: str
    task_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTool:
    """`run` gives text, and raises `ToolError` with words for the model; cancelling it ends its work."""

    name: str
    """Letters, digits, `_` and `-`; the model knows it as `<plugin>__<name>`."""
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[Call], Awaitable[str]]
    repeatable: bool = False
    """It changes nothing anywhere: after a restart it may be called again."""


async def _nothing() -> None:
    """A plugin that holds nothing open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    tools: tuple[PluginTool, ...]
    close: Callable[[], Awaitable[None]] = _nothing
    """Awaited when the agent ends."""


Factory = Callable[[Mapping[str, Any]], Plugin]
