"""One SQLite file with one writer thread, for what an agent remembers.

Work is done in the order of the calls, so a reader sees every write made before it. What is only put has its place in
that order and is waited for later, by whoever tells the world of it: all that has gathered by then is one commit. A
file of an older schema is brought up to date when it is opened, whole or not at all. Refuses to guess about a file it
cannot use: it says so to callers and to readiness, and leaves the file as it is.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from fleetwright_agent.storage.sqlite.engine.sync_read import Glance
from fleetwright_agent.storage.sqlite.engine.transaction import Kind
from fleetwright_agent.storage.sqlite.engine.writer import Committer

T = TypeVar("T")


class MemoryUnusable(Exception):  # noqa: N818 - states a fact about the file, and reads so where it is raised
    """The file cannot be read or written; the text is for people who run the agent, not for callers."""


class Database(Committer):
    """Durable at every commit: a power cut loses nothing that was committed. Opened by the first call."""

    def __init__(self, path: Path, schema: Sequence[str], *, most: int = 256) -> None:
        """Args:
        schema: By version: what each version added to the one before.
        most: So many pieces of work share a commit at most.
        """
        super().__init__(f"sqlite-{path.stem}", most=most)
        self._path = path
        self._glance = Glance(path)
        self._schema = tuple(schema)
        self._under_way: dict[str, list[asyncio.Future[None]]] = {}
        self._watching: list[Callable[[], None]] = []
        self._closed = False
        self.problem: str | None = None
        """Why the file cannot be relied on, for people; nothing once `check` finds it well."""

    async def run(self, work: Callable[[sqlite3.Connection], T], *, after: str = "") -> T:
        """Runs `work` in a transaction on the writer thread; an exception rolls it back.

        Args:
            work: What is done; it neither begins nor ends a transaction.
            after: All that was put under that name is on disk as well when this returns.

        Raises:
            MemoryUnusable: The file cannot be used; nothing was written.
        """
        done = self._submit(work)
        if not after or after not in self._under_way:
            return await done
        result, _ = await asyncio.gather(done, self.settled(after, at_once=False))
        return result

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same for what changes nothing: it sees what was put before, and waits for no disk.

        Raises:
            MemoryUnusable: The file cannot be used.
        """
        return await self._submit(work, Kind.READ)

    async def look(self, work: Callable[[sqlite3.Connection], T], *, of: str = "") -> T:
        """The same for what is small: at once, where nothing that was put is still to be committed.

        Args:
            work: What is read, in some tens of microseconds.
            of: Under this name all is put that it may find; without one nothing is put that it may find.

        Raises:
            MemoryUnusable: The file cannot be used.
        """
        if self._connection is not None and not self._closed and not (of and of in self._under_way):
            with contextlib.suppress(sqlite3.Error):  # The thread has the time to wait, and tells what is wrong.
                return self._glance(work)
        return await self.read(work)

    def put(
        self, work: Callable[[sqlite3.Connection], None], *, of: str = "", keeps_failure: bool = True
    ) -> "asyncio.Future[None]":
        """The same without waiting: `settled` tells under that name whether it is on disk; without one nobody asks.

        What it gives is for whoever watches it; it must not be cancelled.

        Args:
            work: The same.
            of: The name.
            keeps_failure: `settled` reports a failure of it. Otherwise only the returned future holds the failure.
        """
        done = self._submit(work, Kind.LATER)
        self._under_way.setdefault(of, []).append(done)
        done.add_done_callback(partial(self._written, of, keeps_failure=keeps_failure))
        return done

    async def commit(self, done: "asyncio.Future[None]") -> None:
        """Commit one write that was put, and return when it succeeded or failed; the future holds which.

        Raises:
            MemoryUnusable: The database is closed.
        """
        if not done.done():
            self._submit(_nothing).add_done_callback(_heard)
            await asyncio.wait([done])  # A caller that stops waiting stops no write.

    def is_waiting(self, done: "asyncio.Future[None]") -> bool:
        """Whether what was put is still to be begun: what it writes may change until then."""
        return any(job.done is done for job in self._waiting)

    async def settled(self, of: str, *, at_once: bool = True) -> None:
        """All that was put under that name is on disk.

        Args:
            of: The name.
            at_once: Has it committed now, and not with the next that somebody waits for.

        Raises:
            MemoryUnusable: Some of it is not; the next to ask is told of what was put later.
        """
        if not (under_way := list(self._under_way.get(of, ()))):
            return
        if at_once:
            self._submit(_nothing).add_done_callback(_heard)
        await asyncio.wait(under_way)  # Whoever stops waiting stops no write.
        failed = [done for done in under_way if done.exception() is not None]
        for done in failed:
            self._forget(of, done)
        for done in failed[:1]:
            done.result()

    def _written(self, of: str, done: "asyncio.Future[None]", *, keeps_failure: bool) -> None:
        """Forget a finished write; a failure that `settled` reports stays until `settled` has reported it."""
        if done.exception() is None or not of or not keeps_failure:
            self._forget(of, done)

    def _forget(self, of: str, done: "asyncio.Future[None]") -> None:
        # Several may have waited for it, and each forgets what failed.
        left = [each for each in self._under_way.get(of, ()) if each is not done]
        if left:
            self._under_way[of] = left
        else:
            self._under_way.pop(of, None)

    async def check(self) -> None:
        """Looks whether the file is whole and can be written; `problem` is what was found."""
        with contextlib.suppress(MemoryUnusable):
            await self.run(_verify)
            self.problem = None

    async def scrub(self) -> None:
        """Leaves nothing of what was deleted in the file; needs as much room again while it runs."""
        await self._submit(_scrub, Kind.ALONE)
        self.taken_out()

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called when something was taken out that somebody may have read before."""
        self._watching.append(forget)

    def taken_out(self) -> None:
        """Told by whoever deletes or alters what others have stored."""
        for forget in self._watching:
            forget()

    async def shrink(self) -> None:
        """Gives room back that deleted rows took."""
        await self._submit(_shrink, Kind.ALONE)

    async def aclose(self) -> None:
        """After every call that was made before; closed once, it is closed."""
        if not self._closed:
            self._closed = True
            self._glance.close()
            await self._end()

    def _submit(self, work: Callable[[sqlite3.Connection], T], kind: Kind = Kind.AWAITED) -> "asyncio.Future[T]":
        if self._closed or self._is_gone:
            raise MemoryUnusable(f"{self._path.name} in the memory volume is closed; restart the agent")
        return self._begin(work, kind)

    def _open(self) -> sqlite3.Connection:
        return _open(self._path, self._schema)

    def _unusable(self, error: Exception) -> Exception:
        self.problem = (
            f"{self._path.name} in the memory volume cannot be used: {error}; make room or repair it,"
            " or move it away to go on without what it holds"
        )
        unusable = MemoryUnusable(self.problem)
        unusable.__cause__ = error
        return unusable


def _open(path: Path, schema: Sequence[str]) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        # Before the first table, or not before the next time that the file is written anew.
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
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
            f"a newer version of the runtime wrote it (schema {version}, this one knows {len(schema)});"
            " go back to that version"
        )
    if missing := "".join(schema[version:]):
        connection.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {len(schema)}; COMMIT;")


def _nothing(_: sqlite3.Connection) -> None:
    """Has all that was put before it committed."""


def _heard(done: "asyncio.Future[None]") -> None:
    if not done.cancelled():
        done.exception()


def _scrub(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    empty_log(connection)


def _shrink(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        # It frees a page at each step, and only a script is stepped to its end.
        connection.executescript("PRAGMA incremental_vacuum")
    else:
        connection.execute("VACUUM")  # A file of before: from now on it can give room back by and by.
    empty_log(connection)


def empty_log(connection: sqlite3.Connection) -> None:
    """Moves the write-ahead log into the file, and leaves nothing in it."""
    if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        raise sqlite3.OperationalError("it is being read; try again")


def _verify(connection: sqlite3.Connection) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"it is damaged ({verdict})")
    # Writes the number that stands there already: a full or read-only volume shows.
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version}")
