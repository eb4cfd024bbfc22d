"""One thread that writes: it takes whatever has gathered and commits it at once.

Work of one batch shares one commit, so many tasks cost one wait for the disk. A piece of work that fails is undone
alone. Refuses: knowing tables.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fleetwright_agent.server.log import LogUnusable

T = TypeVar("T")
_BATCH = 256


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Callable[[sqlite3.Connection], T]
    done: "asyncio.Future[T] | None"
    result: Any = None
    error: Exception | None = None


class Writer:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="task-log-writer", daemon=True)
        self._thread.start()
        self.problem: str | None = None
        """Why the last commit failed, for people; nothing once one succeeds."""

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what the work returned, after it is on disk.

        Raises:
            LogUnusable: It is not.
        """
        done: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(work, done))
        return await done

    def post(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Writes without anybody waiting; a failure shows in `problem`."""
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
            if jobs:
                self._commit(jobs)
                self._loop.call_soon_threadsafe(_tell, jobs)

    def _commit(self, jobs: list[_Job[Any]]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                self._attempt(job)
            self._connection.execute("COMMIT")
            self.problem = None
        except sqlite3.Error as error:
            self.problem = f"the task log cannot be written: {error}"
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for job in jobs:
                job.error = LogUnusable(self.problem)

    def _attempt(self, job: _Job[Any]) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except LogUnusable as error:
            job.error = error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")


def _tell(jobs: list[_Job[Any]]) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if job.error is not None:
            job.done.set_exception(job.error)
        else:
            job.done.set_result(job.result)
