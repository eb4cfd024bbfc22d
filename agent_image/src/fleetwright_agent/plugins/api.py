"""The public interface for plugins. Third-party code may rely on this module only, and a plugin can only provide tools.

A package registers a factory as an entry point of the group `fleetwright.plugins`. The factory takes the configuration
from the Agent's `spec.plugins` and returns a `Plugin`. The factory runs on a separate thread, without an event loop.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_agent.protocol.frames import Artifact
from fleetwright_agent.tools.port import Allow, Ask, Decision, Deny, Grant, ToolError, ToolResult

__all__ = [
    "GROUP",
    "Allow",
    "Artifact",
    "Ask",
    "Call",
    "Decision",
    "Deny",
    "Factory",
    "Grant",
    "Plugin",
    "PluginTool",
    "ToolError",
    "ToolResult",
]

GROUP: Final = "fleetwright.plugins"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool, requested by the model in one turn."""

    arguments: Mapping[str, Any]
    """Validated against the tool's schema."""
    caller: str
    """The caller of the turn: `client:<name>` or `agent:<namespace>/<name>`."""
    context_id: str
    task_id: str
    write: Callable[[str], None] = lambda _: None
    """Streams a piece of output to the caller while the call runs. It must be called on the event loop."""


async def _allow(_: Call) -> Decision:
    """The default `decide`, which allows every call."""
    return Allow()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTool:
    """A tool of a plugin. `run` returns a result or raises `ToolError` with text for the model, and is cancellable."""

    name: str
    """Letters, digits, `_` and `-`; the model sees it as `<plugin>__<name>`."""
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[Call], Awaitable[str | ToolResult]]
    """Returns the text for the model, or a `ToolResult`, which may also contain artifacts for the caller."""
    decide: Callable[[Call], Awaitable[Decision]] = _allow
    """Decides whether a call may run. It must have no side effects, because one call may need several decisions."""
    repeatable: bool = False
    """True if the tool has no side effects, so that a call may be repeated after a restart."""


async def _nothing() -> None:
    """The default `close`, for a plugin without open resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    tools: tuple[PluginTool, ...]
    close: Callable[[], Awaitable[None]] = _nothing
    """Awaited when the agent shuts down."""


Factory = Callable[[Mapping[str, Any]], Plugin]
