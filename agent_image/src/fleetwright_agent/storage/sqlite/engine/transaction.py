"""A transaction of several jobs on an SQLite file, and its recovery when a job fails.

If a job fails, only that job is undone: the transaction is rolled back, and all jobs are executed again, each after a
savepoint. A job may therefore run twice, and must have no effects outside of the file. A transaction takes the write
lock when it begins, because a maintenance command in another process may write too. This module starts no threads.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch

T = TypeVar("T")


class JobKind(Enum):
    AWAITED = "awaited"
    SHORT = "short"
    """A caller awaits the job, which takes only some tens of microseconds, so the event loop may execute it."""
    LATER = "later"
    """No caller awaits the job yet."""
    READ = "read"
    """The job is read-only. It sees the writes of all earlier jobs, including jobs whose commit may still fail."""
    ALONE = "alone"
    """The job runs outside any transaction."""


@dataclass(slots=True)
class WriteJob(Generic[T]):
    work: Callable[[sqlite3.Connection], T]
    done: "asyncio.Future[T]"
    kind: JobKind
    result: Any = None
    error: Exception | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.done.get_loop()

    def settle(self) -> None:
        """Set the result of the future. Must run on the event loop of the caller."""
        if self.done.done():
            return
        if self.error is not None:
            self.done.set_exception(self.error)
        else:
            self.done.set_result(self.result)


class Transaction:
    def __init__(
        self, connection: sqlite3.Connection, unusable: Callable[[Exception], Exception], *, epoch: WriterEpoch
    ) -> None:
        """Args: `unusable` maps an SQLite error to the exception that callers get."""
        self.jobs: list[WriteJob[Any]] = []
        """The jobs executed in this transaction."""
        self._connection = connection
        self._unusable = unusable
        self._epoch = epoch
        self._failing = False
        """True once a job has failed. Only then are savepoints used, because they add two statements to each job."""

    def begin(self) -> None:
        """Begin the transaction and take the write lock.

        Raises:
            sqlite3.Error: For example, another process holds the lock for longer than the busy timeout, or it has
                become the writer of the file. No transaction is open then.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._epoch.check_writer(self._connection)
        except sqlite3.Error:
            self._connection.rollback()
            raise

    def do(self, job: WriteJob[Any]) -> None:
        """Execute a job. If only the job fails, the job holds the error.

        Raises:
            Exception: The whole transaction was rolled back.
        """
        self.jobs.append(job)
        if self._failing:
            self._try(job)
        elif not _done(job, self._connection):
            self._again()

    def commit(self) -> None:
        """Commit all jobs. Raises: sqlite3.Error if the commit failed."""
        self._connection.execute("COMMIT")

    def lose(self, error: Exception) -> None:
        """Roll back, and fail all jobs."""
        self.undo()
        lost(self.jobs, self._unusable(error))

    def undo(self) -> None:
        """Roll back, and prepare all jobs to be executed again."""
        with suppress(sqlite3.Error):
            self._connection.rollback()
        for job in self.jobs:
            job.error = None

    def _again(self) -> None:
        """Execute all jobs again, each after a savepoint, because the last job failed."""
        self._failing = True
        self._connection.rollback()
        self.begin()
        for job in self.jobs:
            self._try(job)

    def _try(self, job: WriteJob[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has rolled back the whole transaction.
            job.error = self._unusable(error) if is_of_file(error) else error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


def lost(jobs: list[WriteJob[Any]], error: Exception) -> None:
    for job in jobs:
        job.error = error


def is_busy(error: Exception) -> bool:
    """Return whether another process holds the lock."""
    # Errors that Python's own `sqlite3` module raises have no error code.
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


def is_of_file(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error | OSError)


def _done(job: WriteJob[Any], connection: sqlite3.Connection) -> bool:
    try:
        job.result = job.work(connection)
    except Exception:
        return False  # If the job fails again after its savepoint, that failure is reported.
    return True
