"""One SQLite file with one writer thread, for what an agent remembers.

Calls run on the thread in the order they were made, so a reader sees every write made before it. A file of an older
schema is brought up to date when it is opened, whole or not at all. Refuses to guess about a file it cannot use: it
says so to callers and to readiness, and leaves the file as it is.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class MemoryUnusable(Exception):  # noqa: N818 - states a fact about the file, and reads so where it is raised
    """The file cannot be read or written; the text is for people who run the agent, not for callers."""


class Database:
    """Durable at every commit: a power cut loses nothing that was committed. Opened by the first call."""

    def __init__(self, path: Path, schema: Sequence[str]) -> None:
        """Args: `schema` by version: what each version added to the one before."""
        self._path = path
        self._schema = tuple(schema)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{path.stem}")
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self.problem: str | None = None
        """Why the file cannot be relied on, for people; nothing once `check` finds it well."""

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a transaction on the writer thread; an exception rolls it back.

        Raises:
            MemoryUnusable: The file cannot be used; nothing was written.
        """
        return await self.submit(work)

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """The same, begun at once: its place among the calls is now."""
        return asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    async def check(self) -> None:
        """Looks whether the file is whole and can be written; `problem` is what was found."""
        with contextlib.suppress(MemoryUnusable):
            await self.run(_verify)
            self.problem = None

    async def scrub(self) -> None:
        """Leaves nothing of what was deleted in the file; needs as much room again while it runs."""
        await self.run(_scrub)

    async def shrink(self) -> None:
        """Gives room back that deleted rows took."""
        await self.run(_shrink)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _open(self._path, self._schema)
            with self._connection:
                return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            self.problem = (
                f"{self._path.name} in the memory volume cannot be used: {error}; make room or repair it,"
                " or move it away to go on without what it holds"
            )
            raise MemoryUnusable(self.problem) from error

    async def aclose(self) -> None:
        """After every call that was made before; closed once, it is closed."""
        if not self._closed:
            self._closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
            self._thread.shutdown(wait=False)

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _open(path: Path, schema: Sequence[str]) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False)
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


def _scrub(connection: sqlite3.Connection) -> None:
    connection.execute("VACUUM")
    empty_log(connection)


def _shrink(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0]:
        connection.execute("PRAGMA incremental_vacuum").fetchall()
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
