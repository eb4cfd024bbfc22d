"""The task log in memory, for agents with ephemeral memory and for tests. It ends with the process."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL, copy_of, fold
from fleetwright_agent.storage.memory.push_store import MemoryPushStore
from fleetwright_agent.storage.push_store import UnknownTask
from fleetwright_agent.storage.task_log import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    Key,
    MessageNotAccepted,
    PagePosition,
    StoredTask,
    TaskNotRunning,
    TaskPage,
    TaskQuery,
    TooManyWaitingTasks,
)


@dataclass(slots=True)
class _Row:
    owner: str
    seq: int
    busy: bool
    updated_ns: int
    task: Task
    expires_ns: int | None = None


class MemoryTaskLog:
    def __init__(self) -> None:
        self._rows: dict[int, _Row] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._claims: dict[Claim, str] = {}
        self._waiting: Counter[str] = Counter()
        self._last = 0
        self.pushes = MemoryPushStore(self._ended)

    @property
    def problem(self) -> str | None:
        return None

    @property
    def damaged(self) -> int:
        return 0

    async def open(self) -> None:
        """Do nothing: there is no file."""

    async def known(self, claim: Claim) -> DuplicateClaim | None:
        task_id = self._claims.get(claim)
        return None if task_id is None else DuplicateClaim(task_id)

    async def is_reused(self, claim: Claim) -> bool:
        name = (claim.owner, claim.message_id)
        return any((each.owner, each.message_id) == name and each.digest != claim.digest for each in self._claims)

    async def accept(
        self, claim: Claim, task: Task, *, at_ns: int, most_waiting: int | None = None, also: Claim | None = None
    ) -> AcceptedClaim | DuplicateClaim | TooManyWaitingTasks:
        if known := self._claims.get(claim):
            return DuplicateClaim(known)
        if most_waiting is not None and self._waiting[claim.owner] >= most_waiting:
            return TooManyWaitingTasks()
        self._last += 1
        for each in (claim, also):
            if each is not None:
                self._claims[each] = task.id
        self._ids[claim.owner, task.id] = self._last
        self._rows[self._last] = _Row(claim.owner, seq=1, busy=True, updated_ns=at_ns, task=copy_of(task))
        return AcceptedClaim(self._last)

    async def resume(
        self, claim: Claim, stored: StoredTask, records: tuple[EventRecord, ...]
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        if known := self._claims.get(claim):
            return DuplicateClaim(known)
        row = self._rows[stored.n]
        if not self._wake(row, stored):
            return MessageNotAccepted()
        self._claims[claim] = stored.task.id
        for record in records:
            self._append(row, record)
        return AcceptedClaim(stored.n)

    def _wake(self, row: _Row, stored: StoredTask) -> bool:
        if row.busy or row.seq != stored.seq or row.task.status.state not in INTERRUPTED:
            return False
        row.busy = True
        self._waiting[row.owner] -= 1
        return True

    def began(self, n: int, at_ns: int, *, again: bool) -> None:
        """Do nothing: no later process can resume the task."""

    def alive(self, at_ns: int) -> None:
        """Do nothing: no later process will read it."""

    def append(self, n: int, record: EventRecord) -> None:
        row = self._rows.get(n)
        if row is not None and row.busy:
            self._append(row, record)

    def _append(self, row: _Row, record: EventRecord) -> None:
        fold(row.task, record.event)
        row.seq = record.seq
        row.updated_ns = record.at_ns

    def leave(self, n: int) -> None:
        """Do nothing: no later process can resume the task."""

    async def rest(
        self, n: int, records: tuple[EventRecord, ...], task: Task, *, expires_ns: int | None = None
    ) -> None:
        row = self._rows.get(n)
        if row is None or not row.busy:
            raise TaskNotRunning(f"task number {n} is at rest already")
        row.task, row.busy, row.expires_ns = copy_of(task), False, expires_ns
        self._waiting[row.owner] += task.status.state in INTERRUPTED
        row.seq, row.updated_ns = records[-1].seq, records[-1].at_ns
        self.pushes.post_rest(n, owner=row.owner, at_ns=row.updated_ns, task=copy_of(task))

    def _ended(self, n: int) -> tuple[str, Task] | None:
        row = self._rows.get(n)
        if row is None:
            raise UnknownTask
        ended = not row.busy and row.task.status.state in TERMINAL
        return (row.owner, copy_of(row.task)) if ended else None

    async def end(self, stored: StoredTask, record: EventRecord, task: Task) -> bool:
        if not self._wake(self._rows[stored.n], stored):
            return False
        await self.rest(stored.n, (record,), task)
        return True

    async def find(self, owner: str, task_id: str) -> StoredTask | None:
        n = self._ids.get((owner, task_id))
        return None if n is None else self._stored(n)

    def _stored(self, n: int) -> StoredTask:
        row = self._rows[n]
        task = copy_of(row.task)
        return StoredTask(n=n, owner=row.owner, seq=row.seq, busy=row.busy, task=task, updated_ns=row.updated_ns)

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
    def _matches(row: _Row, query: TaskQuery) -> bool:
        return (
            row.owner == query.owner
            and query.context_id in ("", row.task.context_id)
            and query.state in (TaskState.TASK_STATE_UNSPECIFIED, row.task.status.state)
            and row.updated_ns >= query.since_ns
        )

    async def busy(self) -> tuple[Key, ...]:
        return tuple(Key(row.owner, row.task.id) for row in self._rows.values() if row.busy)

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        return tuple(
            Key(row.owner, row.task.id)
            for row in self._rows.values()
            if not row.busy and row.expires_ns is not None and row.expires_ns <= now_ns
        )

    async def sweep(self, before_ns: int) -> int:
        gone = [
            (n, row)
            for n, row in self._rows.items()
            if not row.busy and row.updated_ns < before_ns and row.task.status.state in TERMINAL
        ]
        self._forget(gone)
        self.pushes.forget_dead(before_ns)
        return len(gone)

    def _forget(self, gone: Sequence[tuple[int, _Row]]) -> None:
        """Delete tasks, with a single pass over the claims and the notifications."""
        self.pushes.forget({n for n, _ in gone})
        for n, row in gone:
            del self._rows[n], self._ids[row.owner, row.task.id]
        self._claims = {
            claim: task_id for claim, task_id in self._claims.items() if (claim.owner, task_id) in self._ids
        }

    def _of(self, owner: str, context_id: str) -> list[tuple[int, _Row]]:
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

    async def counted(self, owner: str, context_id: str = "") -> DeletedTasks:
        found = self._of(owner, context_id)
        return DeletedTasks(len(found), sum([len(await self.pushes.registrations(n)) for n, _ in found]))

    async def forget(self, owner: str, context_id: str = "") -> None:
        gone = self._of(owner, context_id)
        self._waiting[owner] -= sum(not row.busy and row.task.status.state in INTERRUPTED for _, row in gone)
        self._forget(gone)

    async def scrub(self) -> None:
        """Do nothing: there is no file."""

    async def aclose(self) -> None:
        """Do nothing: there is no file."""
