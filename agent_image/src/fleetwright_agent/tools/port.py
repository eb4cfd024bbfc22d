"""A tool as the loop sees it: a name, a schema, and a call that may fail in words."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.turn.frames import Frame, TurnRequest


class ToolError(Exception):
    """The call failed; the message is for the model, and through it perhaps for the caller."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in one turn: the arguments are validated against the tool's schema."""

    arguments: Mapping[str, Any]
    turn: TurnRequest
    emit: Callable[[Frame], None]


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` gives text and raises `ToolError`; whatever it returns is data, never instructions."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[ToolCall], Awaitable[str]]

    @property
    def declaration(self) -> dict[str, Any]:
        """The shape in which a chat-completions request names it."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }
