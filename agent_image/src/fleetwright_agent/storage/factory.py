"""Chooses the implementation of the storage ports. This module alone names it, and opens no file."""

from collections.abc import Callable
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog

_LOG_FILE: Final = "tasks.db"


def agent_storage(layout: Layout, clock: Clock, lock: MemoryLock) -> Storage:
    """Return the stores of an agent in its memory volume, except the task log."""
    return sqlite_storage(layout.memory, now=clock.now, lock=lock)


def agent_task_log(layout: Layout, clock: Clock, lock: MemoryLock, *, lost: Callable[[], None]) -> TaskLog:
    """Return the task log of an agent in its memory volume. Args: `lost` counts tasks that can no longer be read."""
    return SqliteTaskLog(layout.memory / _LOG_FILE, lost=lost, now_ns=clock.now_ns, lock=lock)
