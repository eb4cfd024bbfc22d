"""The task log in one SQLite file on the memory volume: one writer, one reader, write-ahead log, full sync.

Records that no caller awaits are buffered for a moment and share a group commit. Before a task is resumed or an
interrupted task is ended, the buffered records of that task are written. When a running task ends or starts to wait,
its buffered records are dropped, because the snapshot contains them. So most records of a short task are never
written. Operations on many tasks flush the whole buffer first.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from a2a.types.a2a_pb2 import Task

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch
from fleetwright_agent.storage.sqlite.tasks import dedup_keys, delegations, erasure, queries
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks import transitions as tasks
from fleetwright_agent.storage.sqlite.tasks import unreadable as damaged
from fleetwright_agent.storage.sqlite.tasks.file import open_reader, open_writer
from fleetwright_agent.storage.sqlite.tasks.push_store import SqlitePushStore
from fleetwright_agent.storage.sqlite.tasks.reader import TaskLogReader
from fleetwright_agent.storage.sqlite.tasks.record_buffer import BufferedRecords, RecordBuffer
from fleetwright_agent.storage.sqlite.tasks.writer import TaskLogWriter
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

_logger = logging.getLogger(__name__)
T = TypeVar("T")
_Answer = TypeVar(
    "_Answer", bound=AcceptedClaim | DuplicateClaim | MessageNotAccepted | TaskIdInUse | TooManyWaitingTasks
)
_FEW: Final = 8
"""The largest batch of records that counts as short work. Many concurrent streams exceed it in a tenth of a second."""
_SMALL: Final = 64 * 1024
"""The largest task, in bytes, whose write counts as short work (some tens of microseconds)."""


class SqliteTaskLog:
    def __init__(
        self,
        path: Path,
        *,
        lost: Callable[[], None] = lambda: None,
        now_ns: Callable[[], int] = time.time_ns,
        lock: MemoryLock | None = None,
    ) -> None:
        """Args:
        lost: Called once for each task that turns out to be unreadable.
        lock: The lock without which the file is not opened. With it, no other process writes the file from then on.
        """
        self._path = path
        self._lock = lock
        self._now_ns = now_ns
        self._lost = lost
        self._writer: TaskLogWriter | None = None
        self._reader: TaskLogReader | None = None
        self._buffer = RecordBuffer(self._write)
        self._watchers: list[Callable[[int], None]] = []
        self._unusable: str | None = "the task log is not open yet"
        self.damaged = 0
        self._under_way: asyncio.Future[None] | None = None
        """The last write that no caller awaits."""
        self.pushes = SqlitePushStore(commit=self._submit, read=self._read)

    @property
    def problem(self) -> str | None:
        threads = (self._writer, self._reader)
        return self._unusable or next((each.problem for each in threads if each and each.problem), None)

    async def open(self) -> None:
        if self._writer is not None:
            return
        try:
            epoch = self._own_epoch()
            connection = await asyncio.to_thread(open_writer, self._path, epoch)
            reader = await asyncio.to_thread(open_reader, self._path)
        except TaskLogUnavailable as error:
            self._unusable = str(error)
            raise
        self._writer, self._reader, self._unusable = TaskLogWriter(connection, epoch), TaskLogReader(reader), None
        self.damaged = await self._read(damaged.kept)

    def _own_epoch(self) -> WriterEpoch | None:
        """Return a new epoch if the log has a lock. Raises: TaskLogUnavailable: This process does not hold the lock."""
        if self._lock is None:
            return None
        try:
            self._lock.check_held()
        except MemoryUnusable as error:
            raise TaskLogUnavailable(str(error)) from error
        return WriterEpoch()

    async def known(self, claim: Claim) -> DuplicateClaim | None:
        return await self._read(partial(tasks.claimed, claim=claim))

    async def is_reused(self, claim: Claim) -> bool:
        name = (claim.owner, claim.message_id, claim.digest)
        return await self._read(lambda connection: connection.execute(sql.FIND_REUSE, name).fetchone() is not None)

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
        work = partial(
            tasks.accept,
            claim=claim,
            task=task,
            at_ns=at_ns,
            most_waiting=most_waiting,
            also=also,
            delegation=delegation,
            dedup_key=dedup_key,
        )
        return self._accepted(await self._submit_of(task, work))

    async def resume(
        self,
        claim: Claim,
        stored: StoredTask,
        records: tuple[EventRecord, ...],
        *,
        delegation: Delegation | None = None,
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        self._write(self._buffer.take(stored.n))
        work = partial(tasks.resume, claim=claim, stored=stored, records=records, delegation=delegation)
        return self._accepted(await self._submit_of(stored.task, work))

    async def delegation(self, owner: str, task_id: str) -> Delegation | None:
        return await self._read(lambda connection: delegations.find(connection, owner, task_id))

    async def take_up(self, stored: StoredTask) -> StoredTask | None:
        return await self._commit(partial(tasks.take_up, stored=stored, now_ns=self._now_ns()))

    def began(self, run: Ownership, at_ns: int, *, again: bool) -> None:
        self._buffer.began(run, at_ns)
        if again:
            self._buffer.flush()

    def alive(self, at_ns: int) -> None:
        self._post(sql.LIVE, (at_ns,))

    def _post(self, statement: str, values: tuple[int, ...]) -> None:
        if self._writer is not None:
            self._writer.post(lambda connection: tasks.done(connection, statement, values))

    def append(self, run: Ownership, record: EventRecord) -> None:
        self._buffer.append(run, record)

    def leave(self, run: Ownership) -> None:
        self._buffer.flush()
        self._post(sql.LEAVE_TASK, (run.n, run.epoch))

    async def rest(
        self, run: Ownership, records: tuple[EventRecord, ...], task: Task, *, expires_ns: int | None = None
    ) -> None:
        self._buffer.take(run.n)  # The snapshot contains the buffered records.
        await self._submit_of(task, partial(tasks.rest, run=run, records=records, task=task, expires_ns=expires_ns))
        self._wake(run.n)

    async def end(self, stored: StoredTask, record: EventRecord, task: Task) -> bool:
        self._write(self._buffer.take(stored.n))
        ended = await self._submit_of(task, partial(tasks.end, stored=stored, record=record, task=task))
        if ended:
            self._wake(stored.n)
        return ended

    async def find(self, owner: str, task_id: str) -> StoredTask | None:
        stored = await self._read(partial(queries.find, owner=owner, task_id=task_id))
        if stored is not None and stored.lost:
            await self._lose(stored)
        return stored

    async def since(self, owner: str, task_id: str, seq: int) -> TaskChanges | None:
        await self._flushed()
        return await self._read(partial(queries.changes_since, owner=owner, task_id=task_id, seq=seq))

    def watch(self, wake: Callable[[int], None]) -> None:
        self._watchers.append(wake)

    def _wake(self, *numbers: int) -> None:
        for wake in self._watchers:
            for n in numbers:
                wake(n)

    def _accepted(self, answer: _Answer) -> _Answer:
        if isinstance(answer, AcceptedClaim):
            self._wake(answer.n)
        return answer

    async def has_accepted(self, dedup_key: str) -> bool:
        return await self._read(lambda connection: dedup_keys.find_task(connection, dedup_key) is not None)

    async def page(self, query: TaskQuery) -> TaskPage:
        # A caller that has seen a state must find the task with a query for this state.
        await self._flushed()
        page = await self._read(partial(queries.page, query=query))
        for each in page.tasks:
            if each.lost:
                await self._lose(each)
        return page

    async def _lose(self, stored: StoredTask) -> None:
        lost, self.damaged = await self._commit(partial(damaged.lose, stored=stored, now_ns=self._now_ns()))
        if lost:
            _logger.error("a task in the log cannot be read", extra={"task": stored.task.id, "number": stored.n})
            self._lost()

    async def busy(self) -> tuple[Key, ...]:
        return await self._keys(sql.BUSY_TASKS)

    async def waiting(self) -> tuple[Key, ...]:
        return await self._keys(sql.WAITING_TASKS)

    async def named(self, task_id: str) -> tuple[Key, ...]:
        return await self._keys(sql.NAMED_TASKS, task_id)

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        return await self._keys(sql.EXPIRED_TASKS, now_ns)

    async def next_expiry_ns(self) -> int | None:
        return await self._number(sql.NEXT_EXPIRY)

    async def oldest_ended_ns(self) -> int | None:
        return await self._number(sql.OLDEST_ENDED)

    async def _number(self, select: str) -> int | None:
        return await self._read(partial(queries.number, select=select))

    async def _keys(self, select: str, *values: int | str) -> tuple[Key, ...]:
        return await self._read(partial(queries.keys, select=select, values=values))

    async def sweep(self, before_ns: int) -> int:
        work = partial(erasure.forget_ended, before_ns=before_ns, now_ns=self._now_ns())
        forgotten, self.damaged = await self._commit(work)
        return forgotten

    async def of(self, owner: str, context_id: str = "") -> tuple[Key, ...]:
        # Use the writer's connection, so that tasks whose acceptance is still queued are included.
        return await self._commit(lambda connection: erasure.keys(connection, owner, context_id))

    async def held(self) -> frozenset[tuple[str, str]]:
        return await self._read(erasure.held)

    async def counted(self, owner: str, context_id: str = "") -> DeletedTasks:
        return await self._read(lambda connection: erasure.counted(connection, owner, context_id))

    async def forget(self, owner: str, context_id: str = "") -> None:
        await self._commit(lambda connection: erasure.forget_of(connection, owner, context_id))

    async def scrub(self) -> None:
        if self._writer is None:
            raise TaskLogUnavailable(self._unusable or "the task log is closed")
        self._buffer.flush()
        await self._writer.alone(erasure.scrub)

    async def aclose(self) -> None:
        self._buffer.flush()
        if self._writer is not None:
            await self._writer.aclose()
            self._writer = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._unusable = "the task log is closed"

    async def _flushed(self) -> None:
        """Write the buffer, and wait for the write. If the write fails, readers see only what is on disk."""
        self._buffer.flush()
        if self._under_way is not None and not self._under_way.done():
            await asyncio.wait({self._under_way})

    def _write(self, buffered: BufferedRecords) -> None:
        if not buffered or self._writer is None:
            return

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(sql.BEGIN_TASK, [(at_ns, run.n, run.epoch) for at_ns, run in buffered.begun])
            for run, record in buffered.records:
                tasks.append(connection, run, record)

        self._under_way = self._writer.post(work, short=len(buffered.records) <= _FEW)
        if self._watchers:
            numbers = {run.n for run, _ in buffered.records}
            self._under_way.add_done_callback(lambda _: self._wake(*numbers))

    async def _commit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Flush the buffer, then run the work."""
        self._buffer.flush()
        return await self._submit(work)

    async def _submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is None:
            raise TaskLogUnavailable(self._unusable or "the task log is closed")
        return await self._writer.submit(work)

    async def _submit_of(self, task: Task, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work whose duration depends on the size of the task."""
        if self._writer is None:
            raise TaskLogUnavailable(self._unusable or "the task log is closed")
        is_short = task.ByteSize() <= _SMALL
        return await (self._writer.submit_short(work) if is_short else self._writer.submit(work))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._reader is None:
            raise TaskLogUnavailable(self._unusable or "the task log is closed")
        return await self._reader.submit(work)
