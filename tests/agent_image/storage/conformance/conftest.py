"""The implementations of the storage ports. Another one is another line of the list."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.tables import MemoryTables
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog


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
    reopen: "Callable[[], Stores]"
    """Builds other stores on the same data, as the next process does."""


def sqlite(folder: Path, clock: SettableClock) -> Stores:
    log = SqliteTaskLog(folder / "tasks.db", now_ns=clock.now_ns)
    storage = sqlite_storage(folder, now=clock.now, now_ns=clock.now_ns)
    return Stores(log, storage, lambda: sqlite(folder, clock))


def memory(_: Path, clock: SettableClock) -> Stores:
    log, tables = MemoryTaskLog(now_ns=clock.now_ns), MemoryTables()

    def build() -> Stores:
        # A task log in memory has no state apart from itself.
        return Stores(log, memory_storage(now=clock.now, now_ns=clock.now_ns, tables=tables), build)

    return build()


IMPLEMENTATIONS: list[Callable[[Path, SettableClock], Stores]] = [
    sqlite,
    memory,
]


async def close(stores: Stores) -> None:
    await stores.log.aclose()
    await stores.storage.facts.aclose()
    await stores.storage.skills.aclose()
    await stores.storage.file.aclose()
    stores.storage.open_calls.aclose()


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
    await close(stores)


Restart = Callable[[], Awaitable[Stores]]


@pytest.fixture
async def restart(stores: Stores) -> AsyncIterator[Restart]:
    """A function that closes the newest stores, and opens others on the same data, as the next process does."""
    opened = [stores]

    async def reopen() -> Stores:
        await close(opened[-1])
        opened.append(opened[-1].reopen())
        await opened[-1].log.open()
        return opened[-1]

    yield reopen
    await close(opened[-1])
