"""A tool call before it runs: its arguments, which a person may have changed, and its approval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.turn.context import TurnContext


@dataclass(frozen=True, slots=True)
class PreparedCall:
    key: str
    """The key in the journal."""
    identity: str
    """The id of the call in the conversation."""
    name: str
    arguments: Mapping[str, Any]
    tool: Tool | None
    reply: Any = None
    edited: bool = False
    """True if a person has changed the arguments."""
    approved: str | None = None
    """The question that a person has approved."""
    state: str = ""
    """The state that this question describes."""
    bypassed: bool = False
    """True if no person was asked, because the configuration exempts the caller from approvals."""

    def port(self, context: TurnContext, write: Callable[[str], None] = lambda _: None) -> ToolCall:
        """Return the call as the tool receives it. Args: `write` streams its output."""
        return ToolCall(
            self.arguments,
            context.request,
            context.emit,
            self.reply,
            self.key,
            self.identity,
            write,
            self.approved,
            self.state,
        )

    def argument_error(self) -> ToolError | None:
        """Return an error if the arguments are invalid. Arguments that cannot be checked pass to the tool."""
        if self.tool is None:
            return None
        # Imported lazily: importing jsonschema takes 5 % of the time to load a turn, which may call no tool.
        from fleetwright_agent.security.argument_schemas import UndecidableSchema, validation_error

        try:
            error = validation_error(self.arguments, self.tool.parameters, patterns=False)
        except UndecidableSchema:
            return None
        if error is None:
            return None
        where = "/".join(str(part) for part in error.absolute_path) or "arguments"
        return ToolError(f"{where}: {error.message}")

    @property
    def once(self) -> bool:
        """True if the journal must record the call, because it must not run twice."""
        return self.tool is not None and not (self.tool.repeatable or self.tool.happens_once(self.arguments))
