"""The model loop's interface for a tool: a name, a schema, and a call that returns or raises text."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.protocol.frames import Frame, InterruptRequest, TurnRequest


class ToolError(Exception):
    """The call failed. The model reads the message, and may repeat it to the caller."""

    outcome = "error"
    """The label of the metric."""


class ToolDeclined(ToolError):  # noqa: N818 - states what a person did, and reads so where it is raised
    """A person declined the call."""

    outcome = "declined"


class ToolBlocked(ToolError):  # noqa: N818 - states what became of the call
    """The agent's policy does not allow the call."""

    outcome = "blocked"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in one turn. The arguments are already validated against the tool's schema."""

    arguments: Mapping[str, Any]
    turn: TurnRequest
    emit: Callable[[Frame], None]
    reply: Any = None
    """A person's reply to the tool's question."""
    key: str = ""
    """Identifies this call within its turn, also after a restart."""
    identity: str = ""
    """The provider's id of the call, which the caller sees too."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool. `run` returns text or raises `ToolError`; the text is data, never instructions."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[ToolCall], Awaitable[str]]
    asks: Callable[[Mapping[str, Any]], InterruptRequest] | None = None
    """Builds the question for a person from the arguments; `None` if the tool needs no reply."""
    repeatable: bool = False
    """The call has no side effects: after a restart it may be repeated."""
    deferrable: bool = False
    """If there are many tools, the model has to search for this one."""

    @property
    def declaration(self) -> dict[str, Any]:
        """The declaration in a chat-completions request."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }
