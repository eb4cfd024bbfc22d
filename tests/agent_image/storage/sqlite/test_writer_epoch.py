"""The epoch of a file: a writer that another process has replaced writes nothing more, and says why."""

import sqlite3

import pytest
from tests.support.agent.kept_rows import SCHEMA, insert_row
from tests.support.agent.task_values import accepted

from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog

TEXT = "another process writes it since"


class LostLock(MemoryLock):
    """A lock that its file system grants to everybody, as one whose server has restarted does."""

    def check_held(self):
        return


@pytest.fixture
def lock(tmp_path):
    return LostLock(tmp_path, name="coder")


async def _rows(database):
    return await database.read(lambda db: [row[0] for row in db.execute("SELECT what FROM kept ORDER BY n")])


async def test_database_refuses_every_write_of_the_earlier_writer(tmp_path, lock):
    first, second = (Database(tmp_path / "kept.db", SCHEMA, lock=lock) for _ in range(2))
    await first.run(insert_row("one"))
    await second.run(insert_row("two"))
    with pytest.raises(MemoryUnusable, match=TEXT):
        await first.run(insert_row("late"))
    first.put(insert_row("later"), of="x")
    with pytest.raises(MemoryUnusable, match=TEXT):
        await first.settled("x")
    await second.run(insert_row("three"))
    assert await _rows(second) == ["one", "two", "three"]
    assert TEXT in first.problem
    assert second.problem is None
    for database in (first, second):
        await database.aclose()


async def test_database_without_a_lock_is_not_opened(tmp_path):
    database = Database(tmp_path / "kept.db", SCHEMA, lock=MemoryLock(tmp_path, name="coder"))
    with pytest.raises(MemoryUnusable, match="does not hold the lock"):
        await database.run(insert_row("one"))
    assert not (tmp_path / "kept.db").exists()
    await database.aclose()


async def test_task_log_refuses_every_write_of_the_earlier_writer(tmp_path, lock):
    first, second = (SqliteTaskLog(tmp_path / "tasks.db", lock=lock) for _ in range(2))
    await first.open()
    await second.open()
    with pytest.raises(TaskLogUnavailable, match=TEXT):
        await accepted(first, "t1")
    await accepted(second, "t1")
    assert TEXT in first.problem
    for log in (first, second):
        await log.aclose()


async def test_task_log_without_a_lock_is_not_opened(tmp_path):
    log = SqliteTaskLog(tmp_path / "tasks.db", lock=MemoryLock(tmp_path, name="coder"))
    with pytest.raises(TaskLogUnavailable, match="does not hold the lock"):
        await log.open()
    assert not (tmp_path / "tasks.db").exists()


async def test_file_of_an_earlier_version_gets_an_epoch(tmp_path, lock):
    old = Database(tmp_path / "kept.db", SCHEMA)
    await old.run(insert_row("one"))
    await old.aclose()
    new = Database(tmp_path / "kept.db", SCHEMA, lock=lock)
    await new.run(insert_row("two"))
    await new.aclose()
    with sqlite3.connect(tmp_path / "kept.db") as connection:
        assert connection.execute("SELECT epoch FROM writer").fetchall() == [(1,)]
    connection.close()
