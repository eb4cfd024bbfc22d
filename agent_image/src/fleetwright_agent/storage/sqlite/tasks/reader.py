"""The reader of the task log: a thread that reads, and the problem that the last read found.

A failed read is reported as a problem until the next read succeeds. Damage is reported until a restart, because a
successful read of other pages does not disprove it. This module does not know the tables.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.tasks.file import is_damage

T = TypeVar("T")


class TaskLogReader:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="task-log-reader")
        self._damaged = False
        self.problem: str | None = None
        """Why the last read failed, for people. None if the last read succeeded and the file is not damaged."""

    async def submit(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run work on the reader's connection, and return its result. Raises: TaskLogUnavailable."""
        try:
            result = await asyncio.get_running_loop().run_in_executor(self._thread, work, self._connection)
        except sqlite3.Error as error:
            if is_damage(error):
                self._damaged = True
                self.problem = f"the task log is damaged: {error}; restart the agent, which keeps the file as evidence"
            elif not self._damaged:
                self.problem = f"the task log cannot be read: {error}"
            raise TaskLogUnavailable(self.problem) from error
        if not self._damaged:
            self.problem = None
        return result

    def close(self) -> None:
        self._thread.shutdown()
        self._connection.close()
