"""A tool as the loop sees it: a name, a schema, and a call that may fail in words."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_agent.protocol.frames import Ask, Frame, TurnRequest


class ToolError(Exception):
    """The call failed; the message is for the model, and through it perhaps for the caller."""

    outcome = "error"
    """For the counter."""


class ToolDeclined(ToolError):  # noqa: N818 - states what a person did, and reads so where it is raised
    """A person did not allow the call."""

    outcome = "declined"


class ToolBlocked(ToolError):  # noqa: N818 - states what became of the call
    """The agent's policy does not allow the call."""

    outcome = "blocked"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call in one turn: the arguments are validated against the tool's schema."""

    arguments: Mapping[str, Any]
    turn: TurnRequest
    emit: Callable[[Frame], None]
    reply: Any = None
    """What a person said to what the tool asks."""
    key: str = ""
    """Names this very call within its turn, in the next process too."""
    identity: str = ""
    """As the provider names it, and the caller is told it."""


@dataclass(frozen=True, slots=True)
class Tool:
    """`run` gives text and raises `ToolError`; whatever it returns is data, never instructions."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of an object."""
    run: Callable[[ToolCall], Awaitable[str]]
    asks: Callable[[Mapping[str, Any]], Ask] | None = None
    """From the arguments to what a person must say before it runs; nobody is asked where this is not given."""
    repeatable: bool = False
    """It changes nothing anywhere: after a restart it may be called again."""
    deferrable: bool = False
    """Where there are many tools, the model has to look for it."""

    @property
    def declaration(self) -> dict[str, Any]:
        """The shape in which a chat-completions request names it."""
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": dict(self.parameters)},
        }
