"""The port between a run and what does its work, and the values that cross it. Knows tasks, not turns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_agent.server.events import Event

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Job:
    """One accepted message and where it belongs."""

    owner: str
    task_id: str
    context_id: str
    message: Message
    metadata: dict[str, Any] = field(default_factory=dict)
    """The request's, laid over the message's."""
    former: Task | None = None
    """The task as it was before this message; nothing where it began with it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended that did not end by itself."""

    state: TaskState
    sentence: str
    """For the caller: why, and what to do. Never holds anything internal."""
    reason: str
    """A word for programs."""


class Work(Protocol):
    async def run(self) -> Sequence[Event]:
        """Does the work and returns its last events, a status in which the task rests at their end.

        Raises:
            TurnFailed: With a sentence for the caller.
        """

    def cut(self, outcome: Outcome) -> Sequence[Event]:
        """The last events of work that was cancelled or has raised; keeps what is worth keeping."""


class Executor(Protocol):
    def begin(self, job: Job, emit: Emit) -> Work:
        """Nothing runs yet; `emit` shows an event at once."""
