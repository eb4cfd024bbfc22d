"""The implementations of the storage ports. Another one is another line of the list."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.storage import Storage
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
class Stores:
    log: TaskLog
    storage: Storage


def sqlite(folder: Path, clock: SettableClock) -> Stores:
    log = SqliteTaskLog(folder / "tasks.db", now_ns=clock.now_ns)
    return Stores(log, sqlite_storage(folder, now=clock.now, now_ns=clock.now_ns))


def memory(_: Path, clock: SettableClock) -> Stores:
    return Stores(MemoryTaskLog(now_ns=clock.now_ns), memory_storage(now=clock.now, now_ns=clock.now_ns))


IMPLEMENTATIONS: list[Callable[[Path, SettableClock], Stores]] = [
    sqlite,
    memory,
]


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock()


@pytest.fixture(params=[pytest.param(each, id=each.__name__) for each in IMPLEMENTATIONS])
def stores(request: pytest.FixtureRequest, tmp_path: Path, clock: SettableClock) -> Stores:
    opened: Stores = request.param(tmp_path, clock)
    return opened


@pytest.fixture
async def log(stores: Stores) -> AsyncIterator[TaskLog]:
    await stores.log.open()
    yield stores.log
    await stores.log.aclose()


@pytest.fixture
async def storage(stores: Stores) -> AsyncIterator[Storage]:
    yield stores.storage
    await stores.storage.facts.aclose()
    await stores.storage.skills.aclose()
    await stores.storage.file.aclose()
    stores.storage.open_calls.aclose()
