"""One thread that writes: it takes whatever has gathered and commits it at once.

Work of one batch shares one commit, so many tasks cost one wait for the disk. A piece of work that fails is undone
alone. Refuses: knowing tables.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleetwright_agent.server.log import LogUnusable

_logger = logging.getLogger(__name__)
T = TypeVar("T")
_BATCH = 256


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Callable[[sqlite3.Connection], T]
    done: "asyncio.Future[T] | None"
    alone: bool = False
    """In no transaction, and with nothing else."""
    result: Any = None
    error: Exception | None = None


class Writer:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="task-log-writer", daemon=True)
        self._failure: str | None = None
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Why the last commit failed or lacks something, for people; nothing once one succeeds."""
        if not self._thread.is_alive():
            return "nothing writes the task log any more; restart the agent, and see its log"
        return self._failure

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what the work returned, after it is on disk.

        Raises:
            LogUnusable: It is not.
        """
        return await self._put(work, alone=False)

    async def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same, for what SQLite does in no transaction.

        Raises:
            LogUnusable: It failed; what was written before stands.
        """
        return await self._put(work, alone=True)

    async def _put(self, work: Callable[[sqlite3.Connection], T], *, alone: bool) -> T:
        if not self._thread.is_alive():
            raise LogUnusable(self.problem)
        done: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(work, done, alone))
        return await done

    def post(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Writes without anybody waiting; a failure of the file shows in `problem`, any other is logged."""
        self._queue.put(_Job(work, None))

    async def aclose(self) -> None:
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def _run(self) -> None:
        going = True
        while going:
            batch = [self._queue.get()]
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            jobs = [job for job in batch if job is not None]
            going = len(jobs) == len(batch)
            if together := [job for job in jobs if not job.alone]:
                self._commit(together)
            for job in jobs:
                if job.alone:
                    self._do(job)
            if jobs:
                self._loop.call_soon_threadsafe(_tell, jobs)

    def _do(self, job: _Job[Any]) -> None:
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            # Nothing may end this thread; and what was written is no worse for it.
            job.error = LogUnusable(f"the task log cannot be scrubbed: {error}")
            job.error.__cause__ = error

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                self._attempt(job)
            self._connection.execute("COMMIT")
        except Exception as error:
            # Nothing may end this thread: whoever waits for it would wait for ever.
            unusable = _unusable(error)
            with suppress(sqlite3.Error):
                self._connection.rollback()
            for job in jobs:
                job.error = unusable
        self._failure = next((str(job.error) for job in jobs if isinstance(job.error, _Unwritable)), None)

    def _attempt(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:
            if not self._connection.in_transaction:
                raise  # SQLite has undone the whole batch with it.
            job.error = _unusable(error) if isinstance(error, sqlite3.Error) else error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


class _Unwritable(LogUnusable):
    """It is the file that refuses, and not what was to be written."""


def _unusable(error: Exception) -> _Unwritable:
    unusable = _Unwritable(f"the task log cannot be written: {error}")
    unusable.__cause__ = error
    return unusable


def _tell(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        if job.done is None and job.error is not None and not isinstance(job.error, LogUnusable):
            _logger.error("something could not be written that nobody waits for", exc_info=job.error)
        if job.done is None or job.done.done():
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)
