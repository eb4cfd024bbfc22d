"""The tasks of a log in memory, and the reads of them."""

from dataclasses import dataclass, field

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL, copy_of
from fleetwright_agent.storage.tasks.records import (
    EventRecord,
    Key,
    PagePosition,
    StoredTask,
    TaskChanges,
    TaskPage,
    TaskQuery,
)


@dataclass(slots=True)
class MemoryTask:
    owner: str
    seq: int
    busy: bool
    updated_ns: int
    task: Task
    expires_ns: int | None = None
    epoch: int = 1
    taken_up: int = 0
    began_ns: int | None = None
    after_n: int | None = None
    """For a task that a message has continued: the highest task number at that time."""
    events: list[EventRecord] = field(default_factory=list)
    """The events of a busy task after its snapshot."""
    snapshot_seq: int = 1
    delegation: Delegation | None = None


class MemoryTaskQueries:
    """The reads of the task log. `MemoryTaskLog` adds the writes."""

    def __init__(self) -> None:
        self._rows: dict[int, MemoryTask] = {}
        self._ids: dict[tuple[str, str], int] = {}
        """Task numbers by owner and task id."""

    async def find(self, owner: str, task_id: str) -> StoredTask | None:
        n = self._ids.get((owner, task_id))
        return None if n is None else self._stored(n)

    def _stored(self, n: int) -> StoredTask:
        row = self._rows[n]
        task = copy_of(row.task)
        return StoredTask(
            n=n,
            owner=row.owner,
            seq=row.seq,
            busy=row.busy,
            task=task,
            updated_ns=row.updated_ns,
            taken_up=row.taken_up,
            began_ns=row.began_ns,
            epoch=row.epoch,
        )

    async def since(self, owner: str, task_id: str, seq: int) -> TaskChanges | None:
        n = self._ids.get((owner, task_id))
        if n is None:
            return None
        row = self._rows[n]
        if seq < row.snapshot_seq:
            return TaskChanges(row.seq, row.busy, task=copy_of(row.task))
        return TaskChanges(max(seq, row.seq), row.busy, tuple(each for each in row.events if each.seq > seq))

    async def page(self, query: TaskQuery) -> TaskPage:
        found = [
            (PagePosition(row.updated_ns, row.task.id), n) for n, row in self._rows.items() if self._matches(row, query)
        ]
        found.sort(key=lambda item: (item[0].updated_ns, item[0].task_id), reverse=True)
        total = len(found)
        if (after := query.after) is not None:
            found = [f for f in found if (f[0].updated_ns, f[0].task_id) < (after.updated_ns, after.task_id)]
        return TaskPage.of(((position, self._stored(n)) for position, n in found), size=query.size, total=total)

    @staticmethod
    def _matches(row: MemoryTask, query: TaskQuery) -> bool:
        return (
            query.owner in (None, row.owner)
            and query.context_id in ("", row.task.context_id)
            and query.state in (TaskState.TASK_STATE_UNSPECIFIED, row.task.status.state)
            and row.updated_ns >= query.since_ns
        )

    async def busy(self) -> tuple[Key, ...]:
        busy = sorted(
            (row.began_ns is None, row.after_n or n, row.after_n is not None, row.updated_ns, n)
            for n, row in self._rows.items()
            if row.busy
        )
        rows = [self._rows[n] for *_, n in busy]
        return tuple(Key(row.owner, row.task.id) for row in rows)

    async def waiting(self) -> tuple[Key, ...]:
        rows = [(row.updated_ns, n, row) for n, row in self._rows.items() if _waits(row)]
        return tuple(Key(row.owner, row.task.id) for _, _, row in sorted(rows, key=lambda found: found[:2]))

    async def named(self, task_id: str) -> tuple[Key, ...]:
        return tuple(Key(row.owner, task_id) for row in self._rows.values() if row.task.id == task_id)

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        return tuple(
            Key(row.owner, row.task.id)
            for row in self._rows.values()
            if not row.busy and row.expires_ns is not None and row.expires_ns <= now_ns
        )

    async def next_expiry_ns(self) -> int | None:
        waits = (row.expires_ns for row in self._rows.values() if not row.busy)
        return min((expires_ns for expires_ns in waits if expires_ns is not None), default=None)

    async def oldest_ended_ns(self) -> int | None:
        ended = (row for row in self._rows.values() if not row.busy and row.task.status.state in TERMINAL)
        return min((row.updated_ns for row in ended), default=None)

    def _of(self, owner: str, context_id: str) -> list[tuple[int, MemoryTask]]:
        return [
            (n, row) for n, row in self._rows.items() if row.owner == owner and context_id in ("", row.task.context_id)
        ]

    async def of(self, owner: str, context_id: str = "") -> tuple[Key, ...]:
        return tuple(Key(row.owner, row.task.id) for _, row in self._of(owner, context_id))

    async def held(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (row.owner, row.task.context_id)
            for row in self._rows.values()
            if row.busy or row.task.status.state in INTERRUPTED
        )


def _waits(row: MemoryTask) -> bool:
    return not row.busy and row.task.status.state in INTERRUPTED
