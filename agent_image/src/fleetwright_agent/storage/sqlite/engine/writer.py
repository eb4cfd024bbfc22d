"""All work on an SQLite file, in the order in which it was handed in: by one thread, or by the event loop for it.

Work shares a commit: with what has gathered beside it, and with what nobody waits for yet. That is handed over with the
next that somebody waits for, or after a while. Whoever waits hears after that commit; whoever only reads, at once.

Each time that the thread needs the interpreter it waits for the event loop to let go of it, and the event loop for the
thread: for work that is short this takes longer than the work. So while the thread has nothing to do the event loop
does such work itself, and the thread only commits it; what comes meanwhile waits for that commit and is the next.
Whatever may take long, or has to wait for another process, is the thread's. Refuses: knowing tables.
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

from fleetwright_agent.storage.sqlite.engine.transaction import Job, Kind, Transaction, is_busy, is_of_file, lost

T = TypeVar("T")
_MOST: Final = 256
_MOST_HERE: Final = 32
"""Pieces of work that the event loop does at a time."""
_PATIENCE_MS: Final = 5000
"""With another process that writes."""
_LINGER: Final = 0.02
"""Seconds for which work that nobody waits for is kept from the thread, and as many from its commit."""


class _Over(Exception):  # noqa: N818 - states what became of the writer
    """Whoever writes does not write any more."""


class Committer(ABC):
    def __init__(self, name: str, *, most: int = _MOST) -> None:
        """Args: at most `most` pieces of work share a commit."""
        self._most = most
        self._connection: sqlite3.Connection | None = None
        self._queue: queue.SimpleQueue[list[Job[Any]] | Transaction | None] = queue.SimpleQueue()
        self._waiting: list[Job[Any]] = []
        """To be handed over together."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._transaction: Transaction | None = None
        """What the thread has begun."""
        self._due = 0.0
        self._handed = 0
        """Pieces of work, counted on the event loop alone; the file is nobody's when as many have ended."""
        self._over = 0
        """Counted by whoever has the file."""
        self._about_to: asyncio.AbstractEventLoop | None = None
        """That does what waits."""
        self._own = False
        """The event loop did what was handed over last."""
        self._patience: int | None = None
        self._ending = False
        self._in_hand: deque[Job[Any] | Transaction] = deque()
        """What the thread has taken and not come to."""
        self._broken: Exception | None = None
        """Why the thread is gone, where it has not ended."""

    @abstractmethod
    def _open(self) -> sqlite3.Connection:
        """On the thread, before the first work: a connection that begins no transaction by itself."""

    @abstractmethod
    def _unusable(self, error: Exception) -> Exception:
        """What whoever waits is told when the file refuses."""

    @property
    def _is_gone(self) -> bool:
        """Whether the thread has ended."""
        return self._thread.ident is not None and not self._thread.is_alive()

    def _begin(self, work: Callable[[sqlite3.Connection], T], kind: Kind = Kind.AWAITED) -> "asyncio.Future[T]":
        """Its place among all work is now. After the end there is none, and what is waited for says so."""
        if self._thread.ident is None and not self._ending:
            self._thread.start()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        if self._ending or self._is_gone:
            done.set_exception(self._unusable(_Over("nothing writes it any more")))
            return done
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
        if not self._waiting:
            return
        if self._suits_the_loop():
            loop = asyncio.get_running_loop()
            if self._is_idle and self._about_to is not loop:
                # With what else comes in this pass of the loop.
                self._about_to = loop
                loop.call_soon(self._do_here)
        else:
            self._give_thread()

    def _suits_the_loop(self) -> bool:
        return (
            self._connection is not None
            and (self._own or self._is_idle)
            and len(self._waiting) <= _MOST_HERE
            and all(job.kind is Kind.SHORT for job in self._waiting)
        )

    @property
    def _is_idle(self) -> bool:
        return self._handed == self._over

    def _give_thread(self) -> None:
        together, self._waiting = self._waiting, []
        self._handed += len(together)
        self._own = False
        self._enqueue(together)

    def _enqueue(self, handed: list[Job[Any]] | Transaction) -> None:
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
                # The thread has the time to wait for who else writes.
                transaction.undo()
                self._enqueue(together)
            else:
                self._lose(transaction, error)
                self._enqueue(together[begun:])
        else:
            self._enqueue(transaction)

    def _wait_for_others(self, milliseconds: int) -> None:
        """So long, while another process writes."""
        if milliseconds != self._patience:
            self._connected().execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._patience = milliseconds

    async def _end(self) -> None:
        """After all that was begun."""
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
            # What ends a thread in its work is no failure of that work; whoever waits must hear of it all the same.
            self._broken = _Over(f"its thread is gone ({type(error).__name__})")
            self._give_up(self._broken)
            raise

    def _give_up(self, error: Exception) -> None:
        """Of all that was handed over nothing stands."""
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
            # What came with a question waits for more to come: nobody asks for its commit yet.
            asked = any(isinstance(each, list) and each and each[-1].kind is not Kind.READ for each in gathered)
            if asked or time.monotonic() >= self._due or not going:
                self._commit_own()

    def _gathered(self) -> "list[list[Job[Any]] | Transaction | None]":
        """Nothing, when the open transaction is due and nothing has come."""
        try:
            left = max(0.0, self._due - time.monotonic()) if self._transaction else None
            gathered = [self._queue.get(timeout=left)]
        except queue.Empty:
            return []
        while not self._queue.empty() and sum(len(each) for each in gathered if isinstance(each, list)) < self._most:
            gathered.append(self._queue.get())
        return gathered

    def _do(self, job: Job[Any] | Transaction) -> None:
        if isinstance(job, Transaction):
            self._commit(job)
            return
        if job.kind is Kind.ALONE or (self._transaction and len(self._transaction.jobs) >= self._most):
            self._commit_own()
        if job.done.cancelled():
            self._over += 1
            return
        if job.kind in {Kind.ALONE, Kind.READ}:
            self._apart(job)
            self._tell([job])
        else:
            self._attempt(job)

    def _apart(self, job: Job[Any]) -> None:
        try:
            self._wait_for_others(_PATIENCE_MS)
            job.result = job.work(self._connected())
        except Exception as error:
            # Nothing may end this thread; and what was written is no worse for it.
            job.error = self._unusable(error) if is_of_file(error) else error

    def _attempt(self, job: Job[Any]) -> None:
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
        """Nothing may end the thread, or all would wait for ever."""
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

    def _ended(self, jobs: list[Job[Any]]) -> None:
        """A transaction, whatever became of it."""
        self._tell(jobs)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _tell(self, jobs: list[Job[Any]]) -> None:
        self._over += len(jobs)
        for loop, told in groupby(jobs, key=lambda job: job.loop):
            try:
                loop.call_soon_threadsafe(self._settle, list(told))
            except RuntimeError:
                # Nobody waits any more on a loop that is closed; who waits on another for this to be over does.
                self._wake_others(loop)

    def _wake_others(self, closed: asyncio.AbstractEventLoop) -> None:
        for loop in {job.loop for job in [*self._waiting]} - {closed}:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._hand_over)

    def _settle(self, jobs: list[Job[Any]]) -> None:
        for job in jobs:
            if job.done.done():
                continue
            if job.error is not None:
                job.done.set_exception(job.error)
            else:
                job.done.set_result(job.result)
        if self._own and self._waiting:
            self._hand_over()
