"""The task log in memory, for agents with ephemeral memory and for tests. It ends with the process."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from a2a.types.a2a_pb2 import Task, TaskState, TaskStatusUpdateEvent

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL, copy_of, fold
from fleetwright_agent.storage.errors import TaskNotRunning
from fleetwright_agent.storage.memory.push_store import MemoryPushStore, TaskOfRegistrations
from fleetwright_agent.storage.push_store import UnknownTask
from fleetwright_agent.storage.task_log import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    Key,
    MessageNotAccepted,
    Ownership,
    PagePosition,
    StoredTask,
    TaskChanges,
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
    epoch: int = 1
    taken_up: int = 0
    began_ns: int | None = None
    after_n: int | None = None
    """For a task that a message has continued: the highest task number at that time."""
    events: list[EventRecord] = field(default_factory=list)
    """The events of a busy task after its snapshot."""
    snapshot_seq: int = 1
    delegation: Delegation | None = None


class MemoryTaskLog:
    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._rows: dict[int, _Row] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._claims: dict[Claim, str] = {}
        self._waiting: Counter[str] = Counter()
        self._last = 0
        self._alive_ns = 0
        self._now_ns = now_ns
        self._watchers: list[Callable[[int], None]] = []
        self.pushes = MemoryPushStore(self._task_of)

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
        self,
        claim: Claim,
        task: Task,
        *,
        at_ns: int,
        most_waiting: int | None = None,
        also: Claim | None = None,
        delegation: Delegation | None = None,
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
        row = _Row(claim.owner, seq=1, busy=True, updated_ns=at_ns, task=copy_of(task))
        self._rows[self._last] = row
        self._delegate(row, delegation, at_ns)
        self._wake(self._last)
        return AcceptedClaim(Ownership(self._last, 1))

    async def resume(
        self,
        claim: Claim,
        stored: StoredTask,
        records: tuple[EventRecord, ...],
        *,
        delegation: Delegation | None = None,
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        if known := self._claims.get(claim):
            return DuplicateClaim(known)
        row = self._rows[stored.n]
        if not self._continue(row, stored):
            return MessageNotAccepted()
        self._claims[claim] = stored.task.id
        self._delegate(row, delegation, records[-1].at_ns)
        for record in records:
            self._append(row, record)
        self._wake(stored.n)
        return AcceptedClaim(Ownership(stored.n, row.epoch))

    def _delegate(self, row: _Row, delegation: Delegation | None, at_ns: int) -> None:
        if delegation is not None:
            self._expire(at_ns)
            row.delegation = delegation

    def _expire(self, at_ns: int) -> None:
        for row in self._rows.values():
            if row.delegation is not None and row.delegation.expires_at <= at_ns // 1_000_000_000:
                row.delegation = None

    async def delegation(self, owner: str, task_id: str) -> Delegation | None:
        n = self._ids.get((owner, task_id))
        return None if n is None else self._rows[n].delegation

    async def take_up(self, stored: StoredTask) -> StoredTask | None:
        row = self._owned(stored.ownership)
        if row is None:
            return None
        row.epoch += 1
        if row.began_ns is not None:
            row.taken_up += 1
            row.began_ns += max(0, self._now_ns() - max(row.began_ns, row.updated_ns, self._alive_ns))
        return replace(stored, epoch=row.epoch, taken_up=row.taken_up, began_ns=row.began_ns)

    def _owned(self, run: Ownership) -> _Row | None:
        """Return the row of a busy task if that epoch owns it."""
        row = self._rows.get(run.n)
        return row if row is not None and row.busy and row.epoch == run.epoch else None

    def _continue(self, row: _Row, stored: StoredTask) -> bool:
        if row.busy or row.seq != stored.seq or row.task.status.state not in INTERRUPTED:
            return False
        row.busy = True
        row.epoch += 1
        row.taken_up, row.began_ns, row.after_n = 0, None, self._last
        self._waiting[row.owner] -= 1
        return True

    def began(self, run: Ownership, at_ns: int, *, again: bool) -> None:  # noqa: ARG002 - nothing is written late
        row = self._owned(run)
        if row is not None and row.began_ns is None:
            row.began_ns = at_ns

    def alive(self, at_ns: int) -> None:
        self._alive_ns = at_ns

    def append(self, run: Ownership, record: EventRecord) -> None:
        if row := self._owned(run):
            self._append(row, record)
            self._wake(run.n)

    def _append(self, row: _Row, record: EventRecord) -> None:
        row.events.append(record)
        fold(row.task, record.event)
        row.seq = record.seq
        if isinstance(record.event, TaskStatusUpdateEvent):
            row.updated_ns = record.at_ns

    def leave(self, run: Ownership) -> None:
        row = self._rows.get(run.n)
        if row is not None and row.epoch == run.epoch:
            row.taken_up = 0

    async def rest(
        self, run: Ownership, records: tuple[EventRecord, ...], task: Task, *, expires_ns: int | None = None
    ) -> None:
        row = self._owned(run)
        if row is None:
            raise TaskNotRunning(f"task number {run.n} is at rest already, or another process has taken it up")
        row.task, row.busy, row.expires_ns = copy_of(task), False, expires_ns
        self._waiting[row.owner] += task.status.state in INTERRUPTED
        row.seq = row.snapshot_seq = records[-1].seq
        row.updated_ns = records[-1].at_ns
        row.events.clear()
        self.pushes.post_rest(run.n, owner=row.owner, at_ns=row.updated_ns, task=copy_of(task))
        self._wake(run.n)

    def _task_of(self, n: int) -> TaskOfRegistrations:
        row = self._rows.get(n)
        if row is None:
            raise UnknownTask
        ended = not row.busy and row.task.status.state in TERMINAL
        return TaskOfRegistrations(row.owner, row.task.id, copy_of(row.task) if ended else None)

    async def end(self, stored: StoredTask, record: EventRecord, task: Task) -> bool:
        row = self._rows[stored.n]
        if not self._continue(row, stored):
            return False
        await self.rest(Ownership(stored.n, row.epoch), (record,), task)
        return True

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

    def watch(self, wake: Callable[[int], None]) -> None:
        self._watchers.append(wake)

    def _wake(self, n: int) -> None:
        for wake in self._watchers:
            wake(n)

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

    async def sweep(self, before_ns: int) -> int:
        gone = [
            (n, row)
            for n, row in self._rows.items()
            if not row.busy and row.updated_ns < before_ns and row.task.status.state in TERMINAL
        ]
        self._forget(gone)
        self._expire(self._now_ns())
        self.pushes.forget_dead(before_ns)
        return len(gone)

    async def oldest_ended_ns(self) -> int | None:
        ended = (row for row in self._rows.values() if not row.busy and row.task.status.state in TERMINAL)
        return min((row.updated_ns for row in ended), default=None)

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


def _waits(row: _Row) -> bool:
    return not row.busy and row.task.status.state in INTERRUPTED
