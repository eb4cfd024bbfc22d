"""The values that the ports of the task log take and return."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_a2a.task_events import Event

MOST_OF_PAGE: Final = 4 * 1024 * 1024
"""A page of a task list takes no further task once it has this size in bytes."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The deduplication key of an owner's message. A message with the same id and content is a repetition."""

    owner: str
    message_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Ownership:
    """The right of one process to write a busy task: a fencing token."""

    n: int
    """The task's number in the log."""
    epoch: int
    """Rises each time that a process takes over the task, or that the task is resumed."""


@dataclass(frozen=True, slots=True)
class AcceptedClaim:
    ownership: Ownership

    @property
    def n(self) -> int:
        return self.ownership.n


@dataclass(frozen=True, slots=True)
class DuplicateClaim:
    """A message with the same claim was accepted before, for this task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class TooManyWaitingTasks:
    """The owner already has the maximum number of tasks that wait for their caller."""


@dataclass(frozen=True, slots=True)
class TaskIdInUse:
    """The owner already has a task with the id of the new task."""


@dataclass(frozen=True, slots=True)
class MessageNotAccepted:
    """The task is running or has ended, so it accepts no further message."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    seq: int
    at_ns: int
    event: Event


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as stored in the log, with the events after its snapshot applied."""

    n: int
    owner: str
    seq: int
    busy: bool
    task: Task
    updated_ns: int = 0
    """The time of the newest record with a status; the timestamp of the status itself may differ."""
    taken_up: int = 0
    """How often in a row a process took over the task after its work began. An orderly handover resets the count."""
    began_ns: int | None = None
    """The start of the work on the newest message, shifted by the time between two processes, which does not count."""
    epoch: int = 1
    """A new task has epoch 1."""
    lost: bool = False
    """True if the stored data is unreadable; `task` is then a failed task that explains this."""

    @property
    def ownership(self) -> Ownership:
        return Ownership(self.n, self.epoch)


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """The changes of a task after a sequence number."""

    seq: int
    """The last sequence number; the next read continues after it."""
    busy: bool
    events: tuple[EventRecord, ...] = ()
    task: Task | None = None
    """The whole task, if the log no longer contains all of the events. `events` is then empty."""


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A position in a task list, which is ordered newest first."""

    updated_ns: int
    task_id: str


@dataclass(frozen=True, slots=True)
class TaskQuery:
    owner: str | None
    """None for the tasks of all owners."""
    size: int
    context_id: str = ""
    state: TaskState = TaskState.TASK_STATE_UNSPECIFIED
    since_ns: int = 0
    after: PagePosition | None = None


@dataclass(frozen=True, slots=True)
class TaskPage:
    tasks: tuple[StoredTask, ...]
    following: PagePosition | None
    """The position where the next page starts; None on the last page."""
    total: int

    @classmethod
    def of(cls, found: Iterable[tuple[PagePosition, StoredTask]], *, size: int, total: int) -> Self:
        """Return a page of at most `size` tasks; fewer if they are large, but at least one if any was found."""
        tasks: list[StoredTask] = []
        last, room = None, MOST_OF_PAGE
        for position, stored in found:
            if len(tasks) == size or room <= 0:
                return cls(tuple(tasks), last, total)
            tasks.append(stored)
            last, room = position, room - stored.task.ByteSize()
        return cls(tuple(tasks), None, total)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a task."""

    owner: str
    task_id: str


@dataclass(frozen=True, slots=True)
class DeletedTasks:
    """The number of tasks that were or would be deleted, and the number of their registrations."""

    tasks: int = 0
    registrations: int = 0
    """Registrations for push notifications."""
