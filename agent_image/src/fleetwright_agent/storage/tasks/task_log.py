"""The ports of the task log: each task is a durable, append-only log of events. Its owner is the caller.

A task is busy while a run works on it. Otherwise it is at rest: it has ended, or it is interrupted and waits for its
caller. Several processes may use the same log. Every implementation guarantees:

- Accepting a message is a compare-and-set: of several calls with the same claim, one creates the task. The claims and
  the first record of the task are one commit. The claim and the records of a message that resumes a task are also one
  commit.
- A busy task belongs to one process, which is identified by an epoch. A process that takes over the task raises the
  epoch. Writes with another epoch have no effect.
- Nothing is appended to a task that is not busy. A task whose run ends with its process stays busy.
- The last records of a task, its change to rest and the notifications about this change are one commit.
- The delegation of a message is part of the commit that accepts the message. Its token is
  deleted after its expiry, and the rest with the task.
- A reader that has seen a sequence number reads the following records with `since`. `watch` reports new records.

This module makes no A2A decisions.
"""

from collections.abc import Callable
from typing import Protocol

from a2a.types.a2a_pb2 import Task

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.storage.tasks.push_store import PushStore
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    Key,
    MessageNotAccepted,
    Ownership,
    StoredTask,
    TaskChanges,
    TaskIdInUse,
    TaskPage,
    TaskQuery,
    TooManyWaitingTasks,
)


class TaskStore(Protocol):
    """Writes and reads single tasks. The asynchronous methods raise TaskLogUnavailable if the log cannot be used."""

    async def accept(
        self,
        claim: Claim,
        task: Task,
        *,
        at_ns: int,
        most_waiting: int | None = None,
        also: Claim | None = None,
        delegation: Delegation | None = None,
        dedup_key: str | None = None,
    ) -> AcceptedClaim | DuplicateClaim | TaskIdInUse | TooManyWaitingTasks:
        """Create a busy task with `task` as its record 1, once per claim. Returns after the commit.

        Args:
            also: A second claim for the same message.
            delegation: The delegation of the message. Expired delegations of other tasks are deleted.
            most_waiting: The maximum number of waiting tasks. An owner with so many may not start another task.
            dedup_key: A key under which the log accepts at most one task. The key is stored in the same commit and is
                never deleted. Another task with the key is a duplicate, even if the first task has been deleted.
        """

    async def resume(
        self,
        claim: Claim,
        stored: StoredTask,
        records: tuple[EventRecord, ...],
        *,
        delegation: Delegation | None = None,
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        """Make an interrupted task busy again, and append the records that continue it. Returns after the commit.

        Args: `delegation` replaces the delegation of the task. Without it, the task keeps its delegation.
        """

    async def take_up(self, stored: StoredTask) -> StoredTask | None:
        """Make this process the owner of another process's busy task, and count this process. Returns after the commit.

        Returns `None` if the task is at rest, or if another process has taken it over since it was read.
        """

    def began(self, run: Ownership, at_ns: int, *, again: bool) -> None:
        """Record that the work on the newest message began, unless that is already recorded. Never raises.

        Args:
            again: True if an earlier process worked on the task. The task may have crashed that process, so the record
                is written at once. Otherwise the record is written soon.
        """

    def append(self, run: Ownership, record: EventRecord) -> None:
        """Append a record soon, in order. If the process dies before that, the record is lost.

        Never raises: `problem` reports failures.
        """

    def leave(self, run: Ownership) -> None:
        """Hand the task over to the next process, and reset the task's count of processes. Never raises."""

    async def rest(
        self, run: Ownership, records: tuple[EventRecord, ...], task: Task, *, expires_ns: int | None = None
    ) -> None:
        """Write the last records and the whole task, which is then no longer busy. Returns after the commit.

        Args:
            expires_ns: The time until which the task may wait for its caller; None for an unlimited wait.

        Raises:
            TaskNotRunning: The task is at rest, or another process owns it; nothing was written.
        """

    async def end(self, stored: StoredTask, record: EventRecord, task: Task) -> bool:
        """End an interrupted task, and return after the commit. Return false if the task has changed meanwhile."""

    async def find(self, owner: str, task_id: str) -> StoredTask | None: ...

    async def since(self, owner: str, task_id: str, seq: int) -> TaskChanges | None:
        """Return the changes of a task after the sequence number `seq`, or `None` if there is no such task."""

    def watch(self, wake: Callable[[int], None]) -> None:
        """Args: `wake` is called with the number of a task that has new records for `since`. It must not block."""


class TaskDelegations(Protocol):
    """Reads the delegations of tasks."""

    async def delegation(self, owner: str, task_id: str) -> Delegation | None:
        """Return the delegation of a task, or None if the agent can act for itself only in this task.

        The delegation may have expired. Its token is then empty after some time. Raises: TaskLogUnavailable.
        """


class TaskQueries(Protocol):
    """Reads of many tasks. The methods raise TaskLogUnavailable if the log cannot be used."""

    async def known(self, claim: Claim) -> DuplicateClaim | None:
        """Return the task for which the same message was accepted before."""

    async def is_reused(self, claim: Claim) -> bool:
        """Return whether the same owner has used the same message id for other content."""

    async def has_accepted(self, dedup_key: str) -> bool:
        """Return whether a task was accepted under this name, even if it has been deleted since."""

    async def page(self, query: TaskQuery) -> TaskPage: ...

    async def busy(self) -> tuple[Key, ...]:
        """Return the busy tasks. At the start of a process, earlier processes left them.

        Tasks whose work has begun come first. The others follow in the order in which their newest messages were
        accepted.
        """

    async def waiting(self) -> tuple[Key, ...]:
        """Return the tasks that wait for their caller. The task that has waited longest comes first."""

    async def named(self, task_id: str) -> tuple[Key, ...]:
        """Return the tasks of all owners that have this id."""

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        """Return the tasks whose wait for their caller has expired."""

    async def next_expiry_ns(self) -> int | None:
        """Return the earliest time at which the wait of a task for its caller expires, or None."""

    async def of(self, owner: str, context_id: str = "") -> tuple[Key, ...]:
        """Return every task of an owner, or of one of its conversations, in the order of acceptance.

        Tasks whose acceptance was requested earlier, but is not yet committed, are included.
        """

    async def held(self) -> frozenset[tuple[str, str]]:
        """Return owner and context of every task that runs or waits."""

    async def counted(self, owner: str, context_id: str = "") -> DeletedTasks:
        """Return what `forget` would delete."""


class TaskRetention(Protocol):
    """Opens the log, and deletes tasks."""

    @property
    def problem(self) -> str | None:
        """Why the log is not usable right now, as text for people. None if the log is usable."""

    @property
    def damaged(self) -> int:
        """The number of unreadable tasks whose original data is kept."""

    async def open(self) -> None:
        """Raises: TaskLogUnavailable."""

    def alive(self, at_ns: int) -> None:
        """Record soon that the process is alive, so that downtime does not count towards time limits. Never raises."""

    async def sweep(self, before_ns: int) -> int:
        """Delete tasks that ended before this time, with all their data, and expired delegations.

        Return the number of the tasks.

        Interrupted tasks stay.
        """

    async def oldest_ended_ns(self) -> int | None:
        """Return the time at which the oldest ended task ended, or None."""

    async def forget(self, owner: str, context_id: str = "") -> None:
        """Delete tasks in any state, with all their data. Returns after the commit."""

    async def scrub(self) -> None:
        """Remove all traces of deleted data from the volume, and free the space."""

    async def aclose(self) -> None: ...


class TaskLog(TaskStore, TaskDelegations, TaskQueries, TaskRetention, Protocol):
    """All ports of one log. A part of the agent depends on the smallest port that it needs."""

    @property
    def pushes(self) -> PushStore:
        """The store of push registrations and notifications."""
