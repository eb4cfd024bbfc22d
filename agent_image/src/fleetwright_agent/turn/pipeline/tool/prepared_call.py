"""A tool call before it runs: its arguments, which a person may have changed, and its approval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.tools.port import Tool, ToolCall
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

    @property
    def once(self) -> bool:
        """True if the journal must record the call, because it must not run twice."""
        return self.tool is not None and not (self.tool.repeatable or self.tool.happens_once(self.arguments))
