"""One thread that does all work on an SQLite file, in the order in which it was handed in.

Work shares a commit: with what has gathered beside it, and with what nobody waits for yet. That is handed to the thread
with the next that somebody waits for, or after a while: each time that the thread wakes it takes the interpreter from
the event loop. Whoever waits hears after that commit; whoever only reads, at once. A piece of work that fails is undone
alone: the transaction is rolled back, and what was done in it is done once more, each piece at a savepoint. So work may
be done twice, and changes nothing but the file. A transaction has the file alone from its beginning, so that what was
read in it stands: a command beside the process may write too. Refuses: knowing tables.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
_MOST: Final = 256
_LINGER: Final = 0.02
"""Seconds for which work that nobody waits for is kept from the thread, and as many from its commit."""


class Kind(Enum):
    AWAITED = "awaited"
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


class Committer(ABC):
    def __init__(self, name: str, *, most: int = _MOST) -> None:
        """Args: at most `most` pieces of work share a commit."""
        self._most = most
        self._connection: sqlite3.Connection | None = None
        self._queue: queue.SimpleQueue[list[Job[Any]] | None] = queue.SimpleQueue()
        self._waiting: list[Job[Any]] = []
        """To be handed to the thread together."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._together: list[Job[Any]] = []
        """Done in the transaction that is open."""
        self._failing = False
        """Something in the open transaction failed. Savepoints are not taken before: two statements for each piece."""
        self._due = 0.0

    @abstractmethod
    def _open(self) -> sqlite3.Connection:
        """On the thread, before the first work: a connection that begins no transaction by itself."""

    @abstractmethod
    def _unusable(self, error: Exception) -> Exception:
        """What whoever waits is told when the file refuses; on the thread."""

    @property
    def _is_gone(self) -> bool:
        """Whether the thread has ended."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def _begin(self, work: Callable[[sqlite3.Connection], T], kind: Kind = Kind.AWAITED) -> "asyncio.Future[T]":
        """Its place among all work is now."""
        if self._thread.ident is None:
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append(Job(work, done, kind))
        if kind is not Kind.LATER:
            self._hand_over()
        elif len(self._waiting) == 1:
            self._timer = loop.call_later(_LINGER, self._hand_over)
        return done

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            together, self._waiting = self._waiting, []
            self._queue.put(together)

    async def _end(self) -> None:
        """After all that was begun."""
        self._hand_over()
        if self._thread.ident is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _work(self) -> None:
        going = True
        while going:
            gathered = self._gathered()
            batches = [batch for batch in gathered if batch is not None]
            going = len(batches) == len(gathered)
            for batch in batches:
                for job in batch:
                    self._do(job)
            # What came with a question waits for more to come: nobody asks for its commit yet.
            if any(batch[-1].kind is not Kind.READ for batch in batches) or time.monotonic() >= self._due or not going:
                self._commit()

    def _gathered(self) -> list[list[Job[Any]] | None]:
        """Nothing, when the open transaction is due and nothing has come."""
        try:
            left = max(0.0, self._due - time.monotonic()) if self._together else None
            gathered = [self._queue.get(timeout=left)]
        except queue.Empty:
            return []
        while not self._queue.empty() and sum(len(batch) for batch in gathered if batch) < self._most:
            gathered.append(self._queue.get())
        return gathered

    def _do(self, job: Job[Any]) -> None:
        if job.kind is Kind.ALONE or len(self._together) >= self._most:
            self._commit()
        if job.done.cancelled():
            return
        if job.kind in {Kind.ALONE, Kind.READ}:
            self._apart(job)
            _tell([job])
        else:
            self._attempt(job)

    def _apart(self, job: Job[Any]) -> None:
        try:
            job.result = job.work(self._connected())
        except Exception as error:
            # Nothing may end this thread; and what was written is no worse for it.
            job.error = self._unusable(error) if _is_of_file(error) else error

    def _attempt(self, job: Job[Any]) -> None:
        begins = not self._together
        self._together.append(job)
        try:
            connection = self._connected()
            if begins:
                self._due = time.monotonic() + _LINGER
                connection.execute("BEGIN IMMEDIATE")
            if self._failing:
                self._try(job, connection)
            elif not _done(job, connection):
                self._again(connection)
        except Exception as error:
            self._lose(error)

    def _again(self, connection: sqlite3.Connection) -> None:
        """All that is done in the open transaction, of which the last has failed."""
        self._failing = True
        connection.rollback()
        connection.execute("BEGIN IMMEDIATE")
        for job in self._together:
            self._try(job, connection)

    def _try(self, job: Job[Any], connection: sqlite3.Connection) -> None:
        connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise  # SQLite has undone everything with it.
            job.error = self._unusable(error) if _is_of_file(error) else error
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")

    def _lose(self, error: Exception) -> None:
        """Nothing of the open transaction stands; and nothing may end this thread, or all would wait for ever."""
        unusable = self._unusable(error)
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.rollback()
        for job in self._together:
            job.error = unusable
        self._ended()

    def _commit(self) -> None:
        if not self._together:
            return
        try:
            self._connected().execute("COMMIT")
        except Exception as error:
            self._lose(error)
        else:
            self._ended()

    def _ended(self) -> None:
        jobs, self._together = self._together, []
        self._failing = False
        _tell(jobs)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection


def _done(job: Job[Any], connection: sqlite3.Connection) -> bool:
    try:
        job.result = job.work(connection)
    except Exception:
        return False  # Of what it is, whoever does it again tells.
    return True


def _is_of_file(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error | OSError)


def _tell(jobs: list[Job[Any]]) -> None:
    for loop, told in groupby(jobs, key=lambda job: job.loop):
        with suppress(RuntimeError):  # Nobody waits any more on a loop that is closed.
            loop.call_soon_threadsafe(_settle, list(told))


def _settle(jobs: list[Job[Any]]) -> None:
    for job in jobs:
        if job.done.done():
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)
