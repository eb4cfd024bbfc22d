"""The port of the task log: tasks as durable, append-only logs of events, keyed by their owner, the caller.

A task is busy while a run works on it, and at rest otherwise: it has ended, or it is interrupted and waits for its
caller. Every implementation guarantees:

- A claim and the first record of its task are written in one commit.
- Nothing is appended to a task that is not busy.
- `busy` alone marks the tasks that a restart interrupted.

This module makes no A2A decisions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, Self

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_a2a.task_events import Event
from fleetwright_agent.storage.push_store import PushStore

MOST_OF_PAGE: Final = 4 * 1024 * 1024
"""The size in bytes from which on a page of a list takes no further task."""


class TaskLogUnavailable(Exception):  # noqa: N818 - states a fact about the log, and reads so where it is raised
    """The log cannot be opened or written. The text is for operators, and must not be shown to callers."""


class TaskNotRunning(TaskLogUnavailable):
    """The task already rests in the log, because another end was written first."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The deduplication key of one owner's message: the same id with the same content is a repetition."""

    owner: str
    message_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class AcceptedClaim:
    n: int
    """The task's number in the log."""


@dataclass(frozen=True, slots=True)
class DuplicateClaim:
    """The claim was made before, for this task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class TooManyWaitingTasks:
    """The owner has the maximum number of tasks that wait for it."""


@dataclass(frozen=True, slots=True)
class MessageNotAccepted:
    """The task is running or has ended, so it takes no further message."""


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
    """The time of the last record; the timestamp of the status may differ."""
    taken_up: int = 0
    """How many processes in a row have worked on it without leaving it in good order, including this one."""
    began_ns: int | None = None
    """When the work on its newest message began, shifted by the pauses between processes."""
    lost: bool = False
    """True if the stored data is unreadable; `task` is then a failed task that explains this."""


@dataclass(frozen=True, slots=True)
class PagePosition:
    """A position in an owner's task list, which is ordered newest first."""

    updated_ns: int
    task_id: str


@dataclass(frozen=True, slots=True)
class TaskQuery:
    owner: str
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
    """The number of tasks that were or would be deleted, and of their registrations."""

    tasks: int = 0
    registrations: int = 0
    """Registrations for push notifications."""


class TaskLog(Protocol):
    @property
    def pushes(self) -> PushStore:
        """The store of push registrations and notifications."""

    @property
    def problem(self) -> str | None:
        """Why the log is not usable right now, as text for people; None if it is."""

    @property
    def damaged(self) -> int:
        """The number of unreadable tasks whose original data is kept."""

    async def open(self) -> None:
        """Raises: LogUnusable."""

    async def known(self, claim: Claim) -> DuplicateClaim | None:
        """Return the task for which the same message was accepted before."""

    async def is_reused(self, claim: Claim) -> bool:
        """Return whether the same owner has used the same message id for other content."""

    async def accept(
        self, claim: Claim, task: Task, *, at_ns: int, most_waiting: int | None = None, also: Claim | None = None
    ) -> AcceptedClaim | DuplicateClaim | TooManyWaitingTasks:
        """Create a busy task with `task` as its record 1, once per claim. Returns after the commit.

        Args:
            also: A second claim for the same message.
            most_waiting: The number of waiting tasks from which on the owner may not start another.
        """

    async def resume(
        self, claim: Claim, stored: StoredTask, records: tuple[EventRecord, ...]
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        """Make an interrupted task busy again, and append the records that continue it. Returns after the commit."""

    def began(self, n: int, at_ns: int, *, again: bool) -> None:
        """Record that the work on the newest message began, unless it is recorded already. Never raises.

        Args:
            again: True if an earlier process worked on the task. The task may have crashed it, so the record is
                written at once; otherwise it is written soon.
        """

    def alive(self, at_ns: int) -> None:
        """Record a sign of life of the process, so that downtime does not count towards time limits.

        Written soon; never raises.
        """

    def append(self, n: int, record: EventRecord) -> None:
        """Append a record soon, in order; it is lost if the process dies first. Never raises: see `problem`."""

    def leave(self, n: int) -> None:
        """Leave the task to the next process in good order, and reset its count of processes. Never raises."""

    async def rest(
        self, n: int, records: tuple[EventRecord, ...], task: Task, *, expires_ns: int | None = None
    ) -> None:
        """Write the last records and the whole task, which is then no longer busy. Returns after the commit.

        Args:
            expires_ns: Until when the task may wait for its caller; without it, the wait is unlimited.

        Raises:
            AtRest: The task was at rest already; nothing was written.
            LogUnusable: Nothing was written, as far as the log knows.
        """

    async def end(self, stored: StoredTask, record: EventRecord, task: Task) -> bool:
        """End an interrupted task, and return after the commit; return false if it has changed since it was read."""

    async def find(self, owner: str, task_id: str) -> StoredTask | None: ...

    async def page(self, query: TaskQuery) -> TaskPage: ...

    async def busy(self) -> tuple[Key, ...]:
        """Return the busy tasks, in the order of acceptance: at the start, those that the previous process left."""

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        """Return the tasks whose wait for their caller has expired."""

    async def sweep(self, before_ns: int) -> int:
        """Delete tasks that ended before this time, with all their data; return their number. Interrupted ones stay."""

    async def of(self, owner: str, context_id: str = "") -> tuple[Key, ...]:
        """Return every task of an owner, or of one of its conversations, in the order of acceptance.

        Tasks whose acceptance was requested earlier, but is not yet committed, are included.
        """

    async def held(self) -> frozenset[tuple[str, str]]:
        """Return owner and context of every task that runs or waits."""

    async def counted(self, owner: str, context_id: str = "") -> DeletedTasks:
        """Return what `forget` would delete."""

    async def forget(self, owner: str, context_id: str = "") -> None:
        """Delete tasks in any state, with all their data. Returns after the commit."""

    async def scrub(self) -> None:
        """Remove all traces of deleted data from the volume, and free the space."""

    async def aclose(self) -> None: ...
