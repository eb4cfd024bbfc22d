"""The writer thread: it executes batches of jobs, one after the other, and commits them.

Between two batches, the thread has no state except for a transaction that no job has asked to commit yet. A failing job
does not end the thread. An exception that is not the failure of a job, such as `SystemExit`, ends the thread. This
module does not decide which jobs form a batch.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from fleetwright_agent.storage.sqlite.engine.connection import WriterConnection
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind, Transaction, WriteJob, lost

_PATIENCE_MS: Final = 5000
"""How long the thread waits for a lock that another process holds."""


class WriterClosed(Exception):  # noqa: N818 - states what became of the writer
    """The writer no longer accepts work."""


@dataclass(slots=True)
class Batch:
    jobs: list[WriteJob[Any]] = field(default_factory=list)
    transaction: Transaction | None = None
    """A transaction whose statements the event loop has executed. The thread only commits it."""
    asks_for_commit: bool = True
    """If false, the transaction may stay open for a moment, so that further jobs join it."""


@dataclass(slots=True)
class Report:
    jobs: list[WriteJob[Any]]
    """Jobs whose results are final."""
    ends_batch: bool
    is_open: bool
    """True if a transaction is still open. The results of its jobs are not final."""


class WriterThread:
    def __init__(
        self, name: str, connection: WriterConnection, report: Callable[[Report], None], *, most: int, linger: float
    ) -> None:
        """Args:
        report: Called on the thread.
        most: The largest number of jobs that share a commit.
        linger: Seconds for which a transaction stays open if no job asks for its commit.
        """
        self._connection = connection
        self._report = report
        self._most = most
        self._linger = linger
        self._batches: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._jobs: deque[WriteJob[Any]] = deque()
        """The jobs of the current batch that are not executed yet."""
        self._final: list[WriteJob[Any]] = []
        """Jobs whose results are final and not reported yet."""
        self._transaction: Transaction | None = None
        self._due = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure: WriterClosed | None = None
        """The reason why the thread died; `None` while it runs, and after an orderly end."""

    def start(self) -> None:
        self._thread.start()

    def give(self, batch: Batch) -> None:
        self._batches.put(batch)

    def stop(self) -> None:
        """End the thread after it has executed the batches that are already submitted."""
        self._batches.put(None)

    def join(self) -> list[WriteJob[Any]]:
        """Block until the thread has ended, and return the jobs of the batches that it has not executed."""
        self._thread.join()
        left: list[WriteJob[Any]] = []
        while not self._batches.empty():
            if batch := self._batches.get():
                left += batch.jobs
        return left

    def _run(self) -> None:
        try:
            while (batch := self._batches.get()) is not None:
                self._execute(batch)
                self._tell(ends_batch=True)
            self._commit()
            self._tell()
        except BaseException as error:
            # Inform the waiting callers here, because no later batch is executed.
            self.failure = WriterClosed(f"its thread is gone ({type(error).__name__})")
            self._lose_all(self.failure)
            self._tell(ends_batch=True)
            raise

    def _execute(self, batch: Batch) -> None:
        if batch.transaction is not None:
            self._transaction = batch.transaction
        self._jobs.extend(batch.jobs)
        while self._jobs:
            self._do(self._jobs[0])
            self._jobs.popleft()
        if batch.asks_for_commit or time.monotonic() >= self._due:
            self._commit()

    def _do(self, job: WriteJob[Any]) -> None:
        if job.done.cancelled():
            return
        if job.kind is JobKind.ALONE:
            self._commit()
            self._tell()
        if job.kind in {JobKind.ALONE, JobKind.READ}:
            self._connection.run(job, patience_ms=_PATIENCE_MS)
            self._final.append(job)
            self._tell()
        else:
            self._write(job)

    def _write(self, job: WriteJob[Any]) -> None:
        if self._transaction is not None and len(self._transaction.jobs) >= self._most:
            self._commit()
        try:
            transaction = self._transaction or self._begun()
        except Exception as error:
            lost([job], self._connection.unusable(error))
            self._final.append(job)
            return
        try:
            transaction.do(job)
        except Exception as error:
            self._lose(transaction, error)

    def _begun(self) -> Transaction:
        transaction = self._connection.transaction()
        self._connection.wait_for_others(_PATIENCE_MS)
        transaction.begin()
        self._due = time.monotonic() + self._linger
        self._transaction = transaction
        return transaction

    def _commit(self) -> None:
        if (transaction := self._transaction) is None:
            return
        try:
            transaction.commit()
        except Exception as error:
            self._lose(transaction, error)
        else:
            self._transaction = None
            self._final += transaction.jobs

    def _lose(self, transaction: Transaction, error: Exception) -> None:
        self._transaction = None
        transaction.lose(error)
        self._final += transaction.jobs

    def _lose_all(self, error: Exception) -> None:
        """Fail the jobs of the open transaction and the rest of the batch."""
        if self._transaction is not None:
            self._lose(self._transaction, error)
        known = {id(job) for job in self._final}
        left = [job for job in self._jobs if id(job) not in known]
        lost(left, self._connection.unusable(error))
        self._final += left

    def _tell(self, *, ends_batch: bool = False) -> None:
        final, self._final = self._final, []
        if final or ends_batch:
            self._report(Report(final, ends_batch, self._transaction is not None))
