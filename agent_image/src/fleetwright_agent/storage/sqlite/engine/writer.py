"""Serializes all work on one SQLite file: jobs run in the order of their submission, and share commits.

The event loop owns the state of the writer. It forms batches of the waiting jobs and gives them to the writer thread,
one at a time. Jobs that arrive while the thread is busy form the next batch, so one commit covers all of them. The
future of a write resolves after its commit; the future of a read resolves as soon as the read is done.

The thread and the event loop compete for the interpreter lock. Handing over the lock takes longer than a short
statement. If all jobs of a batch are short, the event loop therefore executes them itself, and the thread only commits
them. Long statements, and statements that may block on another process, run on the thread.

States and transitions:

         first job         a job            end of this iteration of the event loop:
    NEW ───────────▶ IDLE ─────▶ GATHERING  the loop or the thread executes the jobs
                     ▲  │            │
                     │  │ 20 ms      │
                     │  ▼            │
                     BUSY ◀──────────┘
                     │  ▲ │
      no job asked   │  │ │ an exception ends the thread
      for a commit   ▼  │ └──────────────────────────────▶ FAILED
                     OPEN
                        a job, or 20 ms

    any state ───────▶ CLOSING ────────────────────────────▶ CLOSED
               close            the thread has ended

- BUSY returns to IDLE when the thread has finished its batch. In BUSY and GATHERING, jobs wait.
- A job that no caller awaits yet does not end the states IDLE and OPEN. It joins the batch of another job, or forms a
  batch after 20 ms.
- In OPEN, a transaction is open. A later batch commits it.
- In CLOSING, CLOSED and FAILED, jobs are refused. NEW and FAILED become CLOSED without waiting for jobs.

This module does not know any tables.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, TypeVar

from fleetwright_agent.storage.sqlite.engine.connection import WriterConnection
from fleetwright_agent.storage.sqlite.engine.thread import Batch, Report, WriterClosed, WriterThread
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind, WriteJob, is_busy, lost

T = TypeVar("T")
MOST: Final = 256
_LINGER: Final = 0.02
"""For this time in seconds, an unawaited job waits or a transaction stays open, so that more jobs share the commit."""
_MOST_SHORT: Final = 32
"""The largest number of jobs that the event loop executes in one transaction."""


class WriterState(Enum):
    NEW = "new"
    """The thread is not started."""
    IDLE = "idle"
    """No transaction is open, and the thread waits."""
    GATHERING = "gathering"
    """Jobs wait for further jobs that the same iteration of the event loop submits."""
    BUSY = "busy"
    """The thread has a batch."""
    OPEN = "open"
    """The thread waits. A transaction is open, and further jobs may join it."""
    CLOSING = "closing"
    """The thread executes the last batches."""
    CLOSED = "closed"
    FAILED = "failed"
    """The thread has died."""


_ACCEPTS: Final = frozenset({WriterState.IDLE, WriterState.GATHERING, WriterState.BUSY, WriterState.OPEN})


class SqliteWriter:
    """One event loop uses the writer at a time. After that loop is closed, another loop may use the writer."""

    def __init__(
        self,
        name: str,
        connection: WriterConnection,
        *,
        finished: Callable[[Sequence[WriteJob[Any]]], None] = lambda _: None,
        most: int = MOST,
        linger: float = _LINGER,
    ) -> None:
        """Args:
        finished: Called on the event loop with jobs whose results are final, before the callers get these results.
        most: The largest number of jobs that share a commit.
        linger: Seconds after which a job that no caller awaits is committed, even if no other job arrives.
        """
        self.state = WriterState.NEW
        self._connection = connection
        self._thread = WriterThread(name, connection, self._report, most=most, linger=linger)
        self._finished = finished
        self._most = most
        self._linger = linger
        self._waiting: list[WriteJob[Any]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reports: deque[Report] = deque()

    @property
    def is_connected(self) -> bool:
        return self._connection.is_open

    def is_waiting(self, done: "asyncio.Future[Any]") -> bool:
        """Return whether the job of that future has not been taken into a batch yet."""
        return any(job.done is done for job in self._waiting)

    def submit(self, work: Callable[[sqlite3.Connection], T], kind: JobKind = JobKind.AWAITED) -> "asyncio.Future[T]":
        """Append a job to the queue. If the writer is closed or has failed, the returned future fails."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self.state is WriterState.NEW:
            self._thread.start()
            self.state, self._loop = WriterState.IDLE, loop
        elif loop is not self._loop:
            self._continue_on(loop)
        if self.state not in _ACCEPTS:
            done.set_exception(self._connection.unusable(WriterClosed("nothing writes it any more")))
            return done
        self._waiting.append(WriteJob(work, done, kind))
        if kind is not JobKind.LATER:
            self._dispatch()
        elif self.state in {WriterState.IDLE, WriterState.OPEN}:
            self._start_timer()
        return done

    async def aclose(self) -> None:
        """Close the file after all jobs that were submitted before. Closing it again has no effect."""
        if self.state in _ACCEPTS:
            if self._waiting:
                self._give_waiting(len(self._waiting))
            self.state = WriterState.CLOSING
            self._thread.stop()
        if self.state in {WriterState.CLOSING, WriterState.FAILED}:
            left = await asyncio.to_thread(self._thread.join)
            self._advance()
            self._fail(left)
        self.state = WriterState.CLOSED
        self._connection.close()

    def _dispatch(self) -> None:
        """Form the next batch now, at the end of this iteration of the event loop, or when the thread is done."""
        if self.state is WriterState.OPEN:
            self._give_waiting(self._most)
        elif self.state is WriterState.IDLE:
            self._stop_timer()
            self.state = WriterState.GATHERING
            asyncio.get_running_loop().call_soon(self._form_batch)

    def _form_batch(self) -> None:
        if self.state is not WriterState.GATHERING:
            return  # The writer was closed meanwhile.
        if self._is_short():
            self._execute_short()
        else:
            self._give_waiting(self._most)

    def _is_short(self) -> bool:
        return (
            self._connection.is_open
            and len(self._waiting) <= _MOST_SHORT
            and all(job.kind is JobKind.SHORT for job in self._waiting)
        )

    def _execute_short(self) -> None:
        """Execute the gathered jobs on the event loop, and let the thread commit them."""
        jobs, self._waiting = [job for job in self._waiting if not job.done.cancelled()], []
        if not jobs:
            self.state = WriterState.IDLE
            return
        begun = 0
        transaction = self._connection.transaction()
        try:
            self._connection.wait_for_others(0)
            transaction.begin()
            for job in jobs:
                begun += 1
                transaction.do(job)
        except Exception as error:
            if is_busy(error):
                # The thread can wait for a lock that another process holds; the event loop must not.
                transaction.undo()
                self._give(Batch(jobs))
            else:
                transaction.lose(error)
                self._settle(transaction.jobs)
                self._give(Batch(jobs[begun:]))
        else:
            self._give(Batch(transaction=transaction))

    def _give_waiting(self, most: int, *, asks_for_commit: bool = False) -> None:
        jobs, self._waiting = self._waiting[:most], self._waiting[most:]
        # A read does not ask for a commit: writes that no caller awaits wait for more jobs to join.
        asks = asks_for_commit or any(job.kind not in {JobKind.LATER, JobKind.READ} for job in jobs)
        self._give(Batch(jobs, asks_for_commit=asks))

    def _give(self, batch: Batch) -> None:
        self._stop_timer()
        self.state = WriterState.BUSY
        self._thread.give(batch)

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._linger, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self.state in {WriterState.IDLE, WriterState.OPEN}:
            self._give_waiting(self._most, asks_for_commit=True)

    def _report(self, report: Report) -> None:
        """Pass a report of the thread to the event loop. Runs on the thread."""
        self._reports.append(report)
        told = None
        while told is not (loop := self._loop):
            told = loop
            with suppress(RuntimeError):
                # If the loop is closed, this raises. The event loop that uses the writer next then gets the report, or
                # looks for reports when it starts to use the writer.
                loop.call_soon_threadsafe(self._advance)  # type: ignore[union-attr] # set before the thread starts
                return

    def _continue_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Continue on another event loop. Callbacks and timers of the previous one never run."""
        self._loop, self._timer = loop, None
        if self.state is WriterState.GATHERING:
            self.state = WriterState.IDLE
        self._advance()

    def _advance(self) -> None:
        """Publish the results that the thread has reported, and form the next batch if it has finished the last one."""
        while self._reports:
            report = self._reports.popleft()
            self._settle(report.jobs)
            if report.ends_batch and self.state is WriterState.BUSY:
                self.state = WriterState.OPEN if report.is_open else WriterState.IDLE
        if self._thread.failure is not None and self.state is not WriterState.CLOSING:
            self.state = WriterState.FAILED
            left, self._waiting = self._waiting, []
            self._fail(left)
        if self.state not in {WriterState.IDLE, WriterState.OPEN}:
            return
        if any(job.kind is not JobKind.LATER for job in self._waiting):
            self._dispatch()
        elif self._waiting or self.state is WriterState.OPEN:
            self._start_timer()

    def _fail(self, jobs: list[WriteJob[Any]]) -> None:
        reason = self._thread.failure or WriterClosed("nothing writes it any more")
        lost(jobs, self._connection.unusable(reason))
        self._settle(jobs)

    def _settle(self, jobs: Sequence[WriteJob[Any]]) -> None:
        if jobs:
            self._finished(jobs)
        here = asyncio.get_running_loop()
        for job in jobs:
            if job.loop is here:
                job.settle()
            else:
                with suppress(RuntimeError):  # The caller's loop is closed, so no caller waits.
                    job.loop.call_soon_threadsafe(job.settle)
