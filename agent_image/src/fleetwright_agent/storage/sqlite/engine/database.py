"""One SQLite file of the memory volume, with a single writer thread.

Jobs run in the order in which they were submitted, so a reader sees every earlier write. `put` submits a write without
waiting for it. A caller waits with `settled` before it reports the effect of the write to others. All writes that are
queued then share one commit. A file with an older schema is migrated when it is opened, in one transaction. A file that
cannot be used is left unchanged, and callers and the readiness check get the reason.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite.engine.connection import WriterConnection
from fleetwright_agent.storage.sqlite.engine.sync_read import SyncReader
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind
from fleetwright_agent.storage.sqlite.engine.writer import MOST, SqliteWriter, WriterState
from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch

T = TypeVar("T")


class Database:
    """Every commit is durable: a power failure loses no committed data. The first call opens the file."""

    def __init__(self, path: Path, schema: Sequence[str], *, most: int = MOST, lock: MemoryLock | None = None) -> None:
        """Args:
        schema: The migration script of each version, in order.
        most: The largest number of jobs that share a commit.
        lock: The lock without which the file is not opened. With it, no other process writes the file from then on.
        """
        self._lock = lock
        self._epoch = WriterEpoch()
        connection = WriterConnection(self._open, self._unusable, epoch=self._epoch)
        self._writer = SqliteWriter(f"sqlite-{path.stem}", connection, most=most)
        self._path = path
        self._glance = SyncReader(path)
        self._schema = tuple(schema)
        self._under_way: dict[str, list[asyncio.Future[None]]] = {}
        self._watching: list[Callable[[], None]] = []
        self._closed = False
        self.problem: str | None = None
        """Why the file is unreliable, for operators; `None` after a successful `check`."""

    async def run(self, work: Callable[[sqlite3.Connection], T], *, after: str = "") -> T:
        """Run `work` in a transaction on the writer thread; an exception rolls it back.

        Args:
            work: The statements to execute; it neither begins nor ends a transaction.
            after: Also wait until all writes that were queued under this name are on disk.

        Raises:
            MemoryUnusable: The file cannot be used; nothing was written.
        """
        done = self._submit(work)
        if not after or after not in self._under_way:
            return await done
        result, _ = await asyncio.gather(done, self.settled(after, at_once=False))
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run read-only `work` on the writer thread. It sees all earlier writes and does not wait for a commit.

        Raises:
            MemoryUnusable: The file cannot be used.
        """
        return await self._submit(work, JobKind.READ)

    async def look(self, work: Callable[[sqlite3.Connection], T], *, of: str = "") -> T:
        """Run a short read on the event loop, if no write with the name `of` awaits its commit. Otherwise use `read`.

        Args:
            work: A read that takes some tens of microseconds.
            of: The name under which all writes of the same rows are queued; empty if no such writes are queued.

        Raises:
            MemoryUnusable: The file cannot be used.
        """
        if self._writer.is_connected and not self._closed and not (of and of in self._under_way):
            with contextlib.suppress(sqlite3.Error):  # `read` below can wait for locks, and reports errors.
                return self._glance(work)
        return await self.read(work)

    def put(
        self, work: Callable[[sqlite3.Connection], None], *, of: str = "", keeps_failure: bool = True
    ) -> "asyncio.Future[None]":
        """Queue a write without waiting for it. `settled` waits for all writes with the same name.

        The caller may wait for the returned future, but must not cancel it.

        Args:
            work: The statements to execute.
            of: The name for `settled`. Without a name, no caller waits for the write.
            keeps_failure: True if `settled` reports a failure of the write. Otherwise only the returned future does.
        """
        done = self._submit(work, JobKind.LATER)
        self._under_way.setdefault(of, []).append(done)
        done.add_done_callback(partial(self._written, of, keeps_failure=keeps_failure))
        return done

    async def commit(self, done: "asyncio.Future[None]") -> None:
        """Commit one queued write, and return when it has succeeded or failed. The future holds the result.

        Raises:
            MemoryUnusable: The database is closed.
        """
        if not done.done():
            self._submit(_nothing).add_done_callback(_heard)
            await asyncio.wait([done])  # Cancelling this caller does not cancel the write.

    def is_waiting(self, done: "asyncio.Future[None]") -> bool:
        """Return whether a queued write has not started yet. Until then, its contents may still change."""
        return self._writer.is_waiting(done)

    async def settled(self, of: str, *, at_once: bool = True) -> None:
        """Wait until all writes under that name are on disk.

        Args:
            of: The name.
            at_once: Commit them now instead of with the next awaited job.

        Raises:
            MemoryUnusable: A write failed. A later call reports only later writes.
        """
        if not (under_way := list(self._under_way.get(of, ()))):
            return
        if at_once:
            self._submit(_nothing).add_done_callback(_heard)
        await asyncio.wait(under_way)  # Cancelling this caller does not cancel the writes.
        failed = [done for done in under_way if done.exception() is not None]
        for done in failed:
            self._forget(of, done)
        for done in failed[:1]:
            done.result()

    def _written(self, of: str, done: "asyncio.Future[None]", *, keeps_failure: bool) -> None:
        """Forget a finished write. A failure that `settled` must report stays until it is reported."""
        if done.exception() is None or not of or not keeps_failure:
            self._forget(of, done)

    def _forget(self, of: str, done: "asyncio.Future[None]") -> None:
        # Several callers may have waited for the same write, and each of them removes its failure.
        left = [each for each in self._under_way.get(of, ()) if each is not done]
        if left:
            self._under_way[of] = left
        else:
            self._under_way.pop(of, None)

    async def check(self) -> None:
        """Verify that the file is intact and writable. `problem` holds the result."""
        with contextlib.suppress(MemoryUnusable):
            await self.run(_verify)
            self.problem = None

    async def scrub(self) -> None:
        """Remove all traces of deleted rows from the file. While it runs, it needs the file's size in free space."""
        await self._submit(_scrub, JobKind.ALONE)
        self.taken_out()

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called after rows were deleted or changed, so that caches can be cleared."""
        self._watching.append(forget)

    def taken_out(self) -> None:
        """Invalidate the caches. Call this after deleting or changing stored rows that caches may hold."""
        for forget in self._watching:
            forget()

    async def shrink(self) -> None:
        """Return the space of deleted rows to the file system."""
        await self._submit(_shrink, JobKind.ALONE)

    async def aclose(self) -> None:
        """Close the file after all earlier calls. Closing it again has no effect."""
        if not self._closed:
            self._closed = True
            self._glance.close()
            await self._writer.aclose()

    def _submit(self, work: Callable[[sqlite3.Connection], T], kind: JobKind = JobKind.AWAITED) -> "asyncio.Future[T]":
        if self._closed or self._writer.state is WriterState.FAILED:
            raise MemoryUnusable(f"{self._path.name} in the memory volume is closed; restart the agent")
        return self._writer.submit(work, kind)

    def _open(self) -> sqlite3.Connection:
        if self._lock is not None:
            self._lock.check_held()
        connection = _open(self._path, self._schema)
        if self._lock is not None:
            try:
                self._epoch.claim_file(connection)
            except sqlite3.Error:
                connection.close()
                raise
        return connection

    def _unusable(self, error: Exception) -> Exception:
        self.problem = (
            f"{self._path.name} in the memory volume cannot be used: {error}; free space or repair it,"
            " or move it away to continue without its contents"
        )
        unusable = MemoryUnusable(self.problem)
        unusable.__cause__ = error
        return unusable


def _open(path: Path, schema: Sequence[str]) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # SQLite applies this setting before the first table is created, and otherwise only at the next VACUUM.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous=FULL")
        _update(connection, schema)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _update(connection: sqlite3.Connection, schema: Sequence[str]) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(schema):
        raise sqlite3.DatabaseError(
            f"a newer version of the runtime wrote it (schema {version}, this version supports {len(schema)});"
            " go back to that version"
        )
    if missing := "".join(schema[version:]):
        connection.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {len(schema)}; COMMIT;")


def use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Raises: sqlite3.Error: The file system does not support the shared memory of the write-ahead log."""
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode not in {"wal", "memory"}:  # A database in memory needs no log.
        raise sqlite3.OperationalError(f"its file system does not support SQLite's write-ahead log (mode {mode})")


def _nothing(_: sqlite3.Connection) -> None:
    """An empty job. Its commit includes all writes that were queued before it."""


def _heard(done: "asyncio.Future[None]") -> None:
    if not done.cancelled():
        done.exception()


def _scrub(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    empty_log(connection)


def _shrink(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        # The pragma frees one page per step, and only `executescript` steps a statement to its end.
        connection.executescript("PRAGMA incremental_vacuum")
    else:
        connection.execute("VACUUM")  # A file from an older version; after this VACUUM, incremental vacuum works.
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    """Move the write-ahead log into the database file and truncate the log."""
    if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("it is being read; try again")


def _verify(connection: sqlite3.Connection) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged ({verdict})")
    # Writing the unchanged version number fails on a full or read-only volume.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version}")
