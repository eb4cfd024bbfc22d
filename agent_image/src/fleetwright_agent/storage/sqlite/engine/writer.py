"""Serializes all work on one SQLite file. Jobs run in submission order on a writer thread, or on the event loop.

Jobs are group-committed: one commit covers all queued jobs, including those that no caller awaits yet. A job that no
caller awaits is queued with the next awaited job, or after 20 ms. The future of a write resolves after its commit; the
future of a read resolves at once.

The thread and the event loop compete for the interpreter lock. For short statements the handover takes longer than the
statement. While the thread is idle, the event loop therefore executes short jobs itself, and the thread only commits
them. Jobs that arrive during that commit form the next one. Long-running statements and statements that may block on
another process run on the writer thread. This module does not know any tables.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, TypeVar

from fleetwright_agent.storage.sqlite.engine.transaction import (
    JobKind,
    Transaction,
    WriteJob,
    is_busy,
    is_of_file,
    lost,
)

T = TypeVar("T")
_MOST: Final = 256
_MOST_HERE: Final = 32
"""The most jobs that the event loop executes in one transaction."""
_PATIENCE_MS: Final = 5000
"""How long the writer thread waits for a lock that another process holds."""
_LINGER: Final = 0.02
"""Seconds until an unawaited job is queued, and the longest time until an open transaction commits."""


class _WriterClosed(Exception):  # noqa: N818 - states what became of the writer
    """The writer no longer accepts work."""


class SqliteWriter(ABC):
    def __init__(self, name: str, *, most: int = _MOST) -> None:
        """Args: `most` is the largest number of jobs that share a commit."""
        self._most = most
        self._connection: sqlite3.Connection | None = None
        self._queue: queue.SimpleQueue[list[WriteJob[Any]] | Transaction | None] = queue.SimpleQueue()
        self._waiting: list[WriteJob[Any]] = []
        """Jobs that are queued together at the next handover."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._transaction: Transaction | None = None
        """The writer thread's open transaction."""
        self._due = 0.0
        self._handed = 0
        """The number of jobs handed over, counted on the event loop only. The file is idle when `_over` equals it."""
        self._over = 0
        """The number of finished jobs, counted by the side that executes them."""
        self._about_to: asyncio.AbstractEventLoop | None = None
        """The loop that is scheduled to execute the waiting jobs itself."""
        self._own = False
        """The event loop executed the latest batch."""
        self._patience: int | None = None
        self._ending = False
        self._in_hand: deque[WriteJob[Any] | Transaction] = deque()
        """Jobs that the thread took from the queue and has not executed yet."""
        self._broken: Exception | None = None
        """The reason why the thread died; `None` after an orderly end."""

    @abstractmethod
    def _open(self) -> sqlite3.Connection:
        """Open a connection that begins no transaction by itself. Runs on the thread, before the first job."""

    @abstractmethod
    def _unusable(self, error: Exception) -> Exception:
        """Return the exception that callers get when SQLite rejects a statement."""

    @property
    def _is_gone(self) -> bool:
        """Return whether the thread has ended."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def _begin(self, work: Callable[[sqlite3.Connection], T], kind: JobKind = JobKind.AWAITED) -> "asyncio.Future[T]":
        """Append a job to the order. After the end of the writer, the returned future fails."""
        if self._thread.ident is None and not self._ending:
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._ending or self._is_gone:
            done.set_exception(self._unusable(_WriterClosed("nothing writes it any more")))
            return done
        self._waiting.append(WriteJob(work, done, kind))
        if kind is not JobKind.LATER:
            self._hand_over()
        elif len(self._waiting) == 1:
            self._timer = loop.call_later(_LINGER, self._hand_over)
        return done

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        if self._suits_the_loop():
            loop = asyncio.get_running_loop()
            if self._is_idle and self._about_to is not loop:
                # Jobs that other callbacks of this loop iteration submit join the batch.
                self._about_to = loop
                loop.call_soon(self._do_here)
        else:
            self._give_thread()

    def _suits_the_loop(self) -> bool:
        return (
            self._connection is not None
            and (self._own or self._is_idle)
            and len(self._waiting) <= _MOST_HERE
            and all(job.kind is JobKind.SHORT for job in self._waiting)
        )

    @property
    def _is_idle(self) -> bool:
        return self._handed == self._over

    def _give_thread(self) -> None:
        together, self._waiting = self._waiting, []
        self._handed += len(together)
        self._own = False
        self._enqueue(together)

    def _enqueue(self, handed: list[WriteJob[Any]] | Transaction) -> None:
        self._queue.put(handed)
        if self._broken is not None:
            self._give_up(self._broken)

    def _do_here(self) -> None:
        self._about_to = None
        if not self._suits_the_loop() or not self._is_idle:
            self._hand_over()
            return
        together, self._waiting = [job for job in self._waiting if not job.done.cancelled()], []
        if not together:
            return
        self._handed += len(together)
        self._own, begun = True, 0
        transaction = Transaction(self._connected(), self._unusable)
        try:
            self._wait_for_others(0)
            transaction.begin()
            for job in together:
                begun += 1
                transaction.do(job)
        except Exception as error:
            self._own = False
            if is_busy(error):
                # The writer thread can wait for another process's lock; the event loop cannot.
                transaction.undo()
                self._enqueue(together)
            else:
                self._lose(transaction, error)
                self._enqueue(together[begun:])
        else:
            self._enqueue(transaction)

    def _wait_for_others(self, milliseconds: int) -> None:
        """Set how long SQLite waits while another process writes."""
        if milliseconds != self._patience:
            self._connected().execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._patience = milliseconds

    async def _end(self) -> None:
        """End the writer after all jobs that were submitted before."""
        self._ending = True
        if self._waiting:
            self._give_thread()
        if self._thread.ident is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _work(self) -> None:
        try:
            self._work_to_the_end()
        except BaseException as error:
            # An exception that ends the thread is no job's own failure, so the waiting callers have to be informed
            # here.
            self._broken = _WriterClosed(f"its thread is gone ({type(error).__name__})")
            self._give_up(self._broken)
            raise

    def _give_up(self, error: Exception) -> None:
        """Fail all jobs that were handed over."""
        if self._transaction is not None:
            transaction, self._transaction = self._transaction, None
            self._lose(transaction, error)
        while self._in_hand or not self._queue.empty():
            each = self._in_hand.popleft() if self._in_hand else self._queue.get()
            if isinstance(each, Transaction):
                self._lose(each, error)
            elif each is not None:
                jobs = each if isinstance(each, list) else [each]
                lost(jobs, self._unusable(error))
                self._ended(jobs)

    def _work_to_the_end(self) -> None:
        going = True
        while going:
            gathered = self._gathered()
            going = None not in gathered
            for each in gathered:
                if isinstance(each, Transaction):
                    self._in_hand.append(each)
                elif each is not None:
                    self._in_hand.extend(each)
            while self._in_hand:
                self._do(self._in_hand[0])
                self._in_hand.popleft()
            # A read does not ask for a commit: writes queued with it wait for more jobs to join.
            asked = any(isinstance(each, list) and each and each[-1].kind is not JobKind.READ for each in gathered)
            if asked or time.monotonic() >= self._due or not going:
                self._commit_own()

    def _gathered(self) -> "list[list[WriteJob[Any]] | Transaction | None]":
        """Return the queued jobs; an empty list if the open transaction is due and the queue is empty."""
        try:
            left = max(0.0, self._due - time.monotonic()) if self._transaction else None
            gathered = [self._queue.get(timeout=left)]
        except queue.Empty:
            return []
        while not self._queue.empty() and sum(len(each) for each in gathered if isinstance(each, list)) < self._most:
            gathered.append(self._queue.get())
        return gathered

    def _do(self, job: WriteJob[Any] | Transaction) -> None:
        if isinstance(job, Transaction):
            self._commit(job)
            return
        if job.kind is JobKind.ALONE or (self._transaction and len(self._transaction.jobs) >= self._most):
            self._commit_own()
        if job.done.cancelled():
            self._over += 1
            return
        if job.kind in {JobKind.ALONE, JobKind.READ}:
            self._apart(job)
            self._tell([job])
        else:
            self._attempt(job)

    def _apart(self, job: WriteJob[Any]) -> None:
        try:
            self._wait_for_others(_PATIENCE_MS)
            job.result = job.work(self._connected())
        except Exception as error:
            # No failure may end this thread. A failed read leaves the open transaction intact.
            job.error = self._unusable(error) if is_of_file(error) else error

    def _attempt(self, job: WriteJob[Any]) -> None:
        try:
            transaction = self._transaction or self._begun()
        except Exception as error:
            lost([job], self._unusable(error))
            self._ended([job])
            return
        try:
            transaction.do(job)
        except Exception as error:
            self._transaction = None
            self._lose(transaction, error)

    def _begun(self) -> Transaction:
        transaction = Transaction(self._connected(), self._unusable)
        self._wait_for_others(_PATIENCE_MS)
        self._due = time.monotonic() + _LINGER
        transaction.begin()
        self._transaction = transaction
        return transaction

    def _lose(self, transaction: Transaction, error: Exception) -> None:
        """Fail all jobs of the transaction. An exception must not end the thread, because later callers would hang."""
        transaction.lose(error)
        self._ended(transaction.jobs)

    def _commit_own(self) -> None:
        if self._transaction is not None:
            transaction, self._transaction = self._transaction, None
            self._commit(transaction)

    def _commit(self, transaction: Transaction) -> None:
        try:
            transaction.commit()
        except Exception as error:
            self._lose(transaction, error)
        else:
            self._ended(transaction.jobs)

    def _ended(self, jobs: list[WriteJob[Any]]) -> None:
        """Report the results of a transaction's jobs."""
        self._tell(jobs)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _tell(self, jobs: list[WriteJob[Any]]) -> None:
        self._over += len(jobs)
        for loop, told in groupby(jobs, key=lambda job: job.loop):
            try:
                loop.call_soon_threadsafe(self._settle, list(told))
            except RuntimeError:
                # Callers on a closed loop no longer wait. Callers on other loops may wait for these jobs to finish.
                self._wake_others(loop)

    def _wake_others(self, closed: asyncio.AbstractEventLoop) -> None:
        for loop in {job.loop for job in [*self._waiting]} - {closed}:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._hand_over)

    def _settle(self, jobs: list[WriteJob[Any]]) -> None:
        for job in jobs:
            if job.done.done():
                continue
            if job.error is not None:
                job.done.set_exception(job.error)
            else:
                job.done.set_result(job.result)
        if self._own and self._waiting:
            self._hand_over()
