"""The single writer of the task log. Short work runs on the event loop, and other work runs in a thread.

This module does not know the tables.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.engine.connection import WriterConnection
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind, WriteJob
from fleetwright_agent.storage.sqlite.engine.writer import SqliteWriter, WriterState
from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch

_logger = logging.getLogger(__name__)
T = TypeVar("T")


class TaskLogWriter:
    def __init__(self, connection: sqlite3.Connection, epoch: WriterEpoch | None = None) -> None:
        opened = WriterConnection(lambda: connection, _unusable, opened=connection, epoch=epoch)
        self._writer = SqliteWriter("task-log-writer", opened, finished=self._judge)
        self._failure: str | None = None

    @property
    def problem(self) -> str | None:
        """Why the last commit failed in whole or in part, for people. None if the last commit succeeded."""
        if self._writer.state is WriterState.FAILED:
            return "the writer of the task log has stopped; restart the agent, and see its log"
        return self._failure

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work in a transaction, and return its result after the commit.

        Raises:
            TaskLogUnavailable: The work is not on disk.
        """
        return await self._put(work, JobKind.AWAITED)

    async def submit_short(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run short work in a transaction, and return its result after the commit.

        Raises:
            TaskLogUnavailable: The work is not on disk.
        """
        return await self._put(work, JobKind.SHORT)

    async def alone(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work that SQLite does not allow in a transaction, and return its result.

        Raises:
            TaskLogUnavailable: The work failed; earlier commits are unaffected.
        """
        return await self._put(work, JobKind.ALONE)

    async def _put(self, work: Callable[[sqlite3.Connection], T], kind: JobKind) -> T:
        if self._writer.state is WriterState.FAILED:
            raise TaskLogUnavailable(self.problem)
        return await self._writer.submit(work, kind)

    def post(self, work: Callable[[sqlite3.Connection], None], *, short: bool = True) -> "asyncio.Future[None]":
        """Queue a write that no caller awaits. `problem` shows a failure of the file; other failures are logged."""
        done = self._writer.submit(work, JobKind.SHORT if short else JobKind.AWAITED)
        done.add_done_callback(_lost)
        return done

    async def aclose(self) -> None:
        await self._writer.aclose()

    def _judge(self, jobs: Sequence[WriteJob[Any]]) -> None:
        self._failure = next((str(job.error) for job in jobs if isinstance(job.error, _Unwritable)), None)


class _Unwritable(TaskLogUnavailable):
    """The file cannot be written. An error in the work itself has another type."""


def _unusable(error: Exception) -> Exception:
    unusable = _Unwritable(f"the task log cannot be written: {error}")
    unusable.__cause__ = error
    return unusable


def _lost(done: "asyncio.Future[None]") -> None:
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, TaskLogUnavailable):
        _logger.error("a background write to the task log failed", exc_info=error)
