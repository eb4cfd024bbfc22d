"""The task log in memory, for tests and for programs that embed the runtime. It ends with the process."""

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from a2a.types.a2a_pb2 import Task, TaskStatusUpdateEvent

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL, copy_of, fold
from fleetwright_agent.storage.errors import TaskNotRunning
from fleetwright_agent.storage.memory.push_store import MemoryPushStore, TaskOfRegistrations
from fleetwright_agent.storage.memory.task_queries import MemoryTask, MemoryTaskQueries
from fleetwright_agent.storage.tasks.push_store import UnknownTask
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    MessageNotAccepted,
    Ownership,
    StoredTask,
    TaskIdInUse,
    TooManyWaitingTasks,
)


class MemoryTaskLog(MemoryTaskQueries):
    def __init__(self, *, now_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__()
        self._claims: dict[Claim, str] = {}
        self._dedup_keys: dict[str, str] = {}
        self._waiting: Counter[str] = Counter()
        self._last = 0
        self._alive_ns = 0
        self._first_expiry = math.inf
        """No delegation expires before this time, in seconds since the epoch."""
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

    async def has_accepted(self, dedup_key: str) -> bool:
        return dedup_key in self._dedup_keys

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
        if known := self._claims.get(claim):
            return DuplicateClaim(known)
        if dedup_key is not None and (first := self._dedup_keys.get(dedup_key)):
            return DuplicateClaim(first)
        if most_waiting is not None and self._waiting[claim.owner] >= most_waiting:
            return TooManyWaitingTasks()
        if (claim.owner, task.id) in self._ids:
            return TaskIdInUse()
        self._last += 1
        for each in (claim, also):
            if each is not None:
                self._claims[each] = task.id
        self._ids[claim.owner, task.id] = self._last
        row = MemoryTask(claim.owner, seq=1, busy=True, updated_ns=at_ns, task=copy_of(task))
        self._rows[self._last] = row
        self._delegate(row, delegation, at_ns)
        if dedup_key is not None:
            self._dedup_keys[dedup_key] = task.id
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

    def _delegate(self, row: MemoryTask, delegation: Delegation | None, at_ns: int) -> None:
        if delegation is not None:
            self._expire(at_ns)
            row.delegation = delegation
            self._first_expiry = min(self._first_expiry, delegation.expires_at)

    def _expire(self, at_ns: int) -> None:
        now = at_ns // 1_000_000_000
        # Most messages arrive before the first expiry. Reading all tasks for each of them would take time in proportion
        # to their number.
        if now < self._first_expiry:
            return
        self._first_expiry = math.inf
        for row in self._rows.values():
            if row.delegation is None or not row.delegation.token:
                continue
            if row.delegation.expires_at <= now:
                row.delegation = replace(row.delegation, token="")
            else:
                self._first_expiry = min(self._first_expiry, row.delegation.expires_at)

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

    def _owned(self, run: Ownership) -> MemoryTask | None:
        """Return the row of a busy task if that epoch owns it."""
        row = self._rows.get(run.n)
        return row if row is not None and row.busy and row.epoch == run.epoch else None

    def _continue(self, row: MemoryTask, stored: StoredTask) -> bool:
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

    def _append(self, row: MemoryTask, record: EventRecord) -> None:
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

    def watch(self, wake: Callable[[int], None]) -> None:
        self._watchers.append(wake)

    def _wake(self, n: int) -> None:
        for wake in self._watchers:
            wake(n)

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

    def _forget(self, gone: Sequence[tuple[int, MemoryTask]]) -> None:
        """Delete tasks, with a single pass over the claims and the notifications."""
        self.pushes.forget({n for n, _ in gone})
        for n, row in gone:
            del self._rows[n], self._ids[row.owner, row.task.id]
        self._claims = {
            claim: task_id for claim, task_id in self._claims.items() if (claim.owner, task_id) in self._ids
        }

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
