"""The port between a run and what does its work, and the values that cross it. Knows tasks, not turns."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from a2a.types.a2a_pb2 import Message, Task

from fleetwright_agent.protocol.interrupts import Pause
from fleetwright_agent.protocol.task_events import Event
from fleetwright_agent.protocol.termination_reasons import Outcome

Emit = Callable[[Event], None]


class Pulse:
    """When something last happened in a run, and what: silence is measured from there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.at = clock()
        self.what = "the turn began"
        self.decided = asyncio.Event()
        """Set unless the work of a former process is still to be resumed or refused."""
        self.decided.set()
        self.left = False
        """Whether the work is left to the next process, and not at its end."""

    def is_left(self) -> bool:
        return self.left

    def beat(self, what: str = "") -> None:
        self.at = self._clock()
        self.what = what or self.what


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
    pause: Pause | None = None
    """What the message answers."""
    requested: frozenset[str] = frozenset()
    """The extensions that its caller asked for."""
    accepted: tuple[str, ...] = ()
    """The kinds of output that its caller takes; all where it names none."""
    pulse: Pulse = field(default_factory=Pulse)
    """Emitting an event is a sign of life; what works in silence gives signs of its own."""


class Work(Protocol):
    async def run(self) -> Sequence[Event]:
        """Does the work and returns its last events, a status in which the task rests at their end.

        Raises:
            TurnFailed: With a sentence for the caller.
        """

    def cut(self, outcome: Outcome) -> Sequence[Event]:
        """The last events of work that was cancelled or has raised; keeps what is worth keeping."""


@runtime_checkable
class Measured(Protocol):
    """Work that knows what it has used."""

    def used(self) -> Mapping[str, Any]:
        """By names for a line of the log."""


@runtime_checkable
class Executor(Protocol):
    def begin(self, job: Job, emit: Emit) -> Work:
        """Nothing runs yet; `emit` shows an event at once."""


@runtime_checkable
class Recovering(Protocol):
    """An executor that may take up again what was interrupted by the end of the process."""

    @property
    def recovers(self) -> bool:
        """Whether it does."""

    def recover(self, job: Job, emit: Emit) -> Work | None:
        """Like `begin`, for a message whose work may be done in part; nothing where that cannot be known."""


@runtime_checkable
class Accountable(Protocol):
    """An executor that knows of work that no run of this process holds what it has said and used."""

    async def lost(self, job: Job, task: Task, outcome: Outcome, *, seconds: float) -> Sequence[Event]:
        """The last events of such a task.

        Args: `task` as it is kept; `seconds` it was worked on.
        """
