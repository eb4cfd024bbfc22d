"""The implementations of the storage ports. Another one is another line of this list."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.task_log import TaskLog


class SettableClock:
    """A clock that a test sets, in seconds since the epoch."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> float:
        return self.seconds

    def now_ns(self) -> int:
        return int(self.seconds * 1_000_000_000)


@dataclass(frozen=True)
class Implementation:
    task_log: Callable[[Path, SettableClock], TaskLog]


def sqlite_log(folder: Path, clock: SettableClock) -> TaskLog:
    return SqliteTaskLog(folder / "tasks.db", now_ns=clock.now_ns)


def memory_log(_: Path, clock: SettableClock) -> TaskLog:
    return MemoryTaskLog(now_ns=clock.now_ns)


IMPLEMENTATIONS = [
    pytest.param(Implementation(sqlite_log), id="sqlite"),
    pytest.param(Implementation(memory_log), id="memory"),
]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> Implementation:
    chosen: Implementation = request.param
    return chosen


@pytest.fixture
async def log(implementation: Implementation, tmp_path: Path, clock: SettableClock) -> AsyncIterator[TaskLog]:
    opened = implementation.task_log(tmp_path, clock)
    await opened.open()
    yield opened
    await opened.aclose()
