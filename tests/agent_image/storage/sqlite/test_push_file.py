"""Push registrations and notifications in the file of the task log."""

import sqlite3
from pathlib import Path

from a2a.types.a2a_pb2 import Task, TaskStatus
from tests.support.agent.push_values import COMPLETED, begun, due, hook, rest

from fleetwright_agent.storage.sqlite.tasks import file
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.tasks.records import Ownership


async def test_open_deletes_registrations_without_a_task(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"{file.TASKS} {push.SCHEMA} PRAGMA user_version = 2;")
    connection.execute("INSERT INTO push_configs VALUES (1, 'a', 'https://h/', 'h:443', '1.0', x'')")
    connection.commit()
    connection.close()
    log = SqliteTaskLog(path)
    await log.open()
    run = await begun(log, "t")
    await rest(log, run, "t")
    assert await due(log) == []
    await log.aclose()


async def test_open_migrates_a_log_without_push(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"{file.TASKS} PRAGMA user_version = 1;")
    connection.execute(
        "INSERT INTO tasks VALUES (1, 'me', 't', 'c', 1, 1, 1, 1, 1, ?)",
        (Task(id="t", context_id="c").SerializeToString(),),
    )
    connection.commit()
    connection.close()
    log = SqliteTaskLog(path)
    await log.open()
    await log.pushes.register(1, hook(), at_ns=2, most=10)
    await rest(log, Ownership(1, 1), "t")
    assert [each.task.id for each in await due(log)] == ["t"]
    await log.aclose()


async def test_due_gives_up_unreadable_notifications(tmp_path: Path) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    for name in ("torn", "whole"):
        run = await begun(log, name)
        await log.pushes.register(run.n, hook(), at_ns=2, most=10)
        await rest(log, run, name)
    await log._commit(lambda c: c.execute("UPDATE contents SET task = x'ff01' WHERE n = 1"))
    for _ in range(2):
        assert [each.task.id for each in await due(log)] == ["whole"]
    total, (dead,) = await log.pushes.dead(most=5)
    assert (total, dead.task_id, dead.reason) == (1, "torn", "the task in it cannot be read")
    await log.aclose()


async def _contents(log: SqliteTaskLog) -> int:
    number: int = await log._read(lambda c: c.execute("SELECT count(*) FROM contents").fetchone()[0])
    return number


async def test_notifications_of_one_state_share_its_content(
    tmp_path: Path,
) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    run = await begun(log, "t")
    for name in "abcd":
        await log.pushes.register(run.n, hook(name), at_ns=2, most=10)
    await rest(log, run, "t")
    await log.pushes.register(run.n, hook("late"), at_ns=10, most=10)
    letters = await due(log)
    assert (len(letters), await _contents(log)) == (5, 1)
    await log.pushes.delivered(letters[0].id)
    await log.pushes.give_up(letters[1].id, reason="why", at_ns=11)
    await log.pushes.remove(run.n, "c")
    assert ([each.task.id for each in await due(log)], await _contents(log)) == (["t", "t"], 1)
    await log.pushes.give_up(letters[3].id, reason="why", at_ns=11)
    await log.pushes.delivered(letters[4].id)
    assert await _contents(log) == 0
    await log.aclose()


async def test_forget_deletes_the_content_of_notifications(tmp_path: Path) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    run = await begun(log, "t")
    await log.pushes.register(run.n, hook(), at_ns=2, most=10)
    await rest(log, run, "t")
    await log.forget("me")
    assert await _contents(log) == 0
    await log.aclose()


async def test_open_migrates_notifications_with_own_copies(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"{file.TASKS} {push.SCHEMA} PRAGMA user_version = 2;")
    task = Task(id="t", context_id="c", status=TaskStatus(state=COMPLETED)).SerializeToString()
    connection.execute("INSERT INTO tasks VALUES (1, 'me', 't', 'c', 2, 3, 0, 1, 2, ?)", (task,))
    for name in "ab":
        connection.execute("INSERT INTO push_configs VALUES (1, ?, 'https://h/', 'h:443', '1.0', x'')", (name,))
        connection.execute("INSERT INTO outbox VALUES (NULL, 1, ?, 'h:443', 1, 5, NULL, '', ?)", (name, task))
    connection.execute("INSERT INTO outbox VALUES (NULL, 1, 'a', 'h:443', 3, NULL, 5, 'why', NULL)")
    connection.commit()
    connection.close()
    log = SqliteTaskLog(path)
    await log.open()
    letters = await due(log)
    assert [(each.task.id, each.registration.id, each.attempts) for each in letters] == [("t", "a", 1), ("t", "b", 1)]
    assert (await log.pushes.dead(most=5))[0] == 1
    for each in letters:
        await log.pushes.delivered(each.id)
    assert await _contents(log) == 0
    await log.aclose()
