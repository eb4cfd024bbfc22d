"""Work on an SQLite file between one BEGIN and its COMMIT, and what becomes of it when a piece fails.

A piece of work that fails is undone alone: the transaction is rolled back, and what was done in it is done once more,
each piece at a savepoint. So work may be done twice, and changes nothing but the file. A transaction has the file alone
from its beginning, so that what was read in it stands: a command beside the process may write too. Refuses: threads.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Kind(Enum):
    AWAITED = "awaited"
    SHORT = "short"
    """The same, and done within some tens of microseconds: the event loop may do it."""
    LATER = "later"
    """Nobody waits for it yet."""
    READ = "read"
    """It changes nothing, and sees what was handed in before it, of which a commit may still fail."""
    ALONE = "alone"
    """In no transaction."""


@dataclass(slots=True)
class Job(Generic[T]):
    work: Callable[[sqlite3.Connection], T]
    done: "asyncio.Future[T]"
    kind: Kind
    result: Any = None
    error: Exception | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.done.get_loop()


class Transaction:
    def __init__(self, connection: sqlite3.Connection, unusable: Callable[[Exception], Exception]) -> None:
        """Args: `unusable` gives what whoever waits is told when the file refuses."""
        self.jobs: list[Job[Any]] = []
        """Done in it."""
        self._connection = connection
        self._unusable = unusable
        self._failing = False
        """Something in it failed. Savepoints are not taken before: two statements for each piece."""

    def begin(self) -> None:
        """Raises: sqlite3.Error, also while another process writes for longer than the connection waits."""
        self._connection.execute("BEGIN IMMEDIATE")

    def do(self, job: Job[Any]) -> None:
        """Raises: Exception when nothing of the transaction stands any more."""
        self.jobs.append(job)
        if self._failing:
            self._try(job)
        elif not _done(job, self._connection):
            self._again()

    def commit(self) -> None:
        """Raises: sqlite3.Error when nothing of it stands any more."""
        self._connection.execute("COMMIT")

    def lose(self, error: Exception) -> None:
        """Nothing of it stands."""
        self.undo()
        lost(self.jobs, self._unusable(error))

    def undo(self) -> None:
        """Nothing of it stands, and all of it may be done once more."""
        with suppress(sqlite3.Error):
            self._connection.rollback()
        for job in self.jobs:
            job.error = None

    def _again(self) -> None:
        """All that was done in it, of which the last has failed."""
        self._failing = True
        self._connection.rollback()
        self.begin()
        for job in self.jobs:
            self._try(job)

    def _try(self, job: Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has undone everything with it.
            job.error = self._unusable(error) if is_of_file(error) else error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


def lost(jobs: list[Job[Any]], error: Exception) -> None:
    for job in jobs:
        job.error = error


def is_busy(error: Exception) -> bool:
    """Whether another process is writing."""
    # One that Python's own module raises has no code.
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


def is_of_file(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error | OSError)


def _done(job: Job[Any], connection: sqlite3.Connection) -> bool:
    try:
        job.result = job.work(connection)
    except Exception:
        return False  # Of what it is, whoever does it again tells.
    return True
