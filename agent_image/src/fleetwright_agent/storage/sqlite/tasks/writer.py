"""What writes the task log: what is short within the event loop, the rest by a thread. Refuses: knowing tables."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from fleetwright_agent.storage.sqlite.engine.transaction import Job, Kind
from fleetwright_agent.storage.sqlite.engine.writer import Committer
from fleetwright_agent.storage.task_log import LogUnusable

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class Writer(Committer):
    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__("task-log-writer")
        self._connection = connection
        self._failure: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the last commit failed or lacks something, for people; nothing once one succeeds."""
        if self._is_gone:
            return "nothing writes the task log any more; restart the agent, and see its log"
        return self._failure

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Returns what the work returned, after it is on disk.

        Raises:
            LogUnusable: It is not.
        """
        return await self._put(work, Kind.AWAITED)

    async def submit_short(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same, for what is done at once.

        Raises:
            LogUnusable: It is not on disk.
        """
        return await self._put(work, Kind.SHORT)

    async def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same, for what SQLite does in no transaction.

        Raises:
            LogUnusable: It failed; what was written before stands.
        """
        return await self._put(work, Kind.ALONE)

    async def _put(self, work: Callable[[sqlite3.Connection], T], kind: Kind) -> T:
        if self._is_gone:
            raise LogUnusable(self.problem)
        return await self._begin(work, kind)

    def post(self, work: Callable[[sqlite3.Connection], None], *, short: bool = True) -> "asyncio.Future[None]":
        """Writes without anybody waiting; a failure of the file shows in `problem`, any other is logged."""
        done = self._begin(work, Kind.SHORT if short else Kind.AWAITED)
        done.add_done_callback(_lost)
        return done

    async def aclose(self) -> None:
        await self._end()

    def _open(self) -> sqlite3.Connection:
        raise LogUnusable("the task log is closed")

    def _unusable(self, error: Exception) -> Exception:
        unusable = _Unwritable(f"the task log cannot be written: {error}")
        unusable.__cause__ = error
        return unusable

    def _ended(self, jobs: list[Job[Any]]) -> None:
        if jobs:
            self._failure = next((str(job.error) for job in jobs if isinstance(job.error, _Unwritable)), None)
        super()._ended(jobs)


class _Unwritable(LogUnusable):
    """It is the file that refuses, and not what was to be written."""


def _lost(done: "asyncio.Future[None]") -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, LogUnusable):
        _logger.error("something could not be written that nobody waits for", exc_info=error)
