"""The interface between a run and the executor that does its work, with the values that they exchange.

This module knows tasks, but not the turns of a conversation.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from a2a.types.a2a_pb2 import Message, Task
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.task_events import Event
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.protocol.termination_reasons import Termination

Emit = Callable[[Event], None]


class Heartbeat:
    """The time of a run's last progress, and its current activity, for stall detection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.at = clock()
        self.what = "the turn began"
        self.decided = asyncio.Event()
        """Cleared for recovered work until it is known whether the work can be resumed."""
        self.decided.set()
        self.left = False
        """True if the work is cancelled because the next process will resume it."""

    def is_left(self) -> bool:
        return self.left

    def beat(self, what: str = "") -> None:
        self.at = self._clock()
        self.what = what or self.what


@dataclass(frozen=True, slots=True)
class TaskJob:
    """One accepted message with its task, context and owner."""

    owner: str
    task_id: str
    context_id: str
    message: Message
    metadata: dict[str, Any] = field(default_factory=dict)
    """The metadata of the message, overridden by the metadata of the request."""
    former: Task | None = None
    """The task as it was before this message; None if the message began the task."""
    pause: TaskInterrupt | None = None
    """The question or approval request that the message answers, if any."""
    requested: frozenset[str] = frozenset()
    """The extensions that the caller requested."""
    accepted: tuple[str, ...] = ()
    """The output media types that the caller accepts; empty means all."""
    pulse: Heartbeat = field(default_factory=Heartbeat)
    """An emitted event counts as progress. Work that emits no events must call `beat` itself."""

    @property
    def first_metadata(self) -> dict[str, Any]:
        """The metadata of the message that began the task."""
        return MessageToDict(self.former.history[0].metadata) if self.former and self.former.history else self.metadata


class TaskWork(Protocol):
    async def run(self) -> Sequence[Event]:
        """Do the work, and return its last events. The last event is a status with which the task ends or waits.

        Raises:
            TurnFailed: The work failed. The exception contains a text for the caller.
        """

    def cut(self, outcome: Termination) -> Sequence[Event]:
        """Return the last events of work that was cancelled or has failed. They may contain a partial result."""


@runtime_checkable
class ReportsUsage(Protocol):
    """Work that measures its usage."""

    def used(self) -> Mapping[str, Any]:
        """Return the usage as fields for a log line."""


@runtime_checkable
class Executor(Protocol):
    def begin(self, job: TaskJob, emit: Emit) -> TaskWork:
        """Create the work without starting it. The work calls `emit` to publish an event at once."""


@runtime_checkable
class RecoverableExecutor(Protocol):
    """An executor that may resume work that was interrupted by the end of the process."""

    @property
    def recovers(self) -> bool:
        """True if this executor resumes work."""

    def recover(self, job: TaskJob, emit: Emit) -> TaskWork | None:
        """Create the work for a message whose work may be partly done. Return None if it cannot be resumed."""


@runtime_checkable
class ReportsLostWork(Protocol):
    """An executor that can report the output and the usage of work that has no run in this process."""

    async def lost(self, job: TaskJob, task: Task, outcome: Termination, *, seconds: float) -> Sequence[Event]:
        """Return the last events of a task that has no run in this process.

        Args:
            task: The task as stored.
            seconds: The time that was spent on the task.
        """
