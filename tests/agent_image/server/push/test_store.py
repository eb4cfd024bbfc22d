"""Push registrations in both task log implementations, and a task log from before push existed."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Task, TaskState, TaskStatus

from fleetwright_a2a.task_events import status_event
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.push_store import Notification, Registration, UndeliveredNotification, UnknownTask
from fleetwright_agent.storage.sqlite.tasks import file
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.task_log import AcceptedClaim, Claim, EventRecord, StoredTask, TaskLog

COMPLETED, WAITING = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED
SECOND = 1_000_000_000


@pytest.fixture(params=[pytest.param("sqlite", id="in SQLite"), pytest.param("memory", id="in memory")])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskLog]:
    made: TaskLog = SqliteTaskLog(tmp_path / "tasks.db") if request.param == "sqlite" else MemoryTaskLog()
    await made.open()
    yield made
    await made.aclose()


def hook(name: str = "a", host: str = "h:443") -> Registration:
    return Registration(name, f"https://{host}/{name}", host, "1.0", b"sealed")


async def begun(log: TaskLog, name: str) -> int:
    task = Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    answer = await log.accept(Claim("me", f"m-{name}", b"1"), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    return answer.n


async def rest(log: TaskLog, n: int, name: str, state: TaskState = COMPLETED, *, seq: int = 2, at_ns: int = 9) -> None:
    final = Task(id=name, context_id="c", status=TaskStatus(state=state))
    await log.rest(n, (EventRecord(seq, at_ns, status_event(name, "c", state, at_ns=at_ns)),), final)


async def due(log: TaskLog, now_ns: int = 100, **limits: object) -> list[Notification]:
    wanted = {"but": (), "hosts_but": (), "owners_but": (), "most": 10, **limits}
    return list(await log.pushes.due(now_ns, **wanted))  # type: ignore[arg-type] - the test's own


async def test_a_rest_and_its_letters_are_there_together(log: TaskLog) -> None:
    n, quiet = await begun(log, "t"), await begun(log, "quiet")
    assert await log.pushes.register(n, hook(), at_ns=2, most=10)
    assert await due(log) == []
    await rest(log, n, "t")
    await rest(log, quiet, "quiet")
    (letter,) = await due(log)
    assert (letter.owner, letter.registration, letter.attempts) == ("me", hook(), 0)
    assert (letter.task.id, letter.task.status.state) == ("t", COMPLETED)
    await log.pushes.delivered(letter.id)
    assert (await due(log), await log.pushes.next_due_ns(but=())) == ([], None)


async def test_a_letter_that_was_put_off_comes_back_and_one_given_up_does_not(log: TaskLog) -> None:
    n = await begun(log, "t")
    await log.pushes.register(n, hook(), at_ns=2, most=10)
    await rest(log, n, "t")
    (letter,) = await due(log)
    await log.pushes.put_off(letter.id, until_ns=200)
    assert (await due(log, 199), await log.pushes.next_due_ns(but=())) == ([], 200)
    assert await log.pushes.next_due_ns(but=(letter.id,)) is None
    (again,) = await due(log, 200)
    assert again.attempts == 1
    await log.pushes.give_up(letter.id, reason="why", at_ns=300)
    assert await due(log, 10_000) == []
    assert await log.pushes.dead(most=5) == (1, (UndeliveredNotification("t", "h:443", "why", 300),))
    await log.sweep(300)
    assert (await log.pushes.dead(most=5))[0] == 0


async def test_after_the_clock_has_jumped_back_nothing_waits_for_the_time_before(log: TaskLog) -> None:
    n = await begun(log, "t")
    await log.pushes.register(n, hook(), at_ns=2, most=10)
    await rest(log, n, "t", at_ns=4000 * SECOND)
    assert len(await due(log, 400 * SECOND)) == 1


async def test_the_letters_of_one_registration_go_in_their_order_and_others_do_not_wait(log: TaskLog) -> None:
    n = await begun(log, "t")
    await log.pushes.register(n, hook("a"), at_ns=2, most=10)
    await log.pushes.register(n, hook("b", "other:443"), at_ns=2, most=10)
    await rest(log, n, "t", WAITING)
    stored = await log.find("me", "t")
    assert isinstance(stored, StoredTask)
    ending = Task(id="t", context_id="c", status=TaskStatus(state=COMPLETED))
    assert await log.end(stored, EventRecord(3, 10, status_event("t", "c", COMPLETED, at_ns=10)), ending)
    letters = await due(log)
    assert [(each.registration.id, each.task.status.state) for each in letters] == [("a", WAITING), ("b", WAITING)]
    await log.pushes.delivered(letters[0].id)
    letters = await due(log)
    assert {(each.registration.id, each.task.status.state) for each in letters} == {("a", COMPLETED), ("b", WAITING)}
    assert [each.registration.id for each in await due(log, hosts_but=("h:443",))] == ["b"]
    assert len(await due(log, but=[each.id for each in letters])) == 0
    assert len(await due(log, most=1)) == 1
    assert (len(await due(log, owners_but=("you",))), await due(log, owners_but=("me",))) == (2, [])


async def test_whoever_registers_after_the_end_is_told_and_whoever_does_so_in_a_pause_is_not(log: TaskLog) -> None:
    ended, paused = await begun(log, "ended"), await begun(log, "paused")
    await rest(log, ended, "ended")
    await rest(log, paused, "paused", WAITING)
    await log.pushes.register(ended, hook(), at_ns=50, most=10)
    await log.pushes.register(paused, hook(), at_ns=50, most=10)
    assert [each.task.id for each in await due(log)] == ["ended"]


async def test_a_replaced_address_counts_also_for_what_waits(log: TaskLog) -> None:
    n = await begun(log, "t")
    await log.pushes.register(n, hook(), at_ns=2, most=1)
    await rest(log, n, "t", WAITING)
    assert not await log.pushes.register(n, hook("b"), at_ns=3, most=1)
    assert await log.pushes.register(n, hook("a", "moved:443"), at_ns=3, most=1)
    (letter,) = await due(log)
    assert letter.registration.url == "https://moved:443/a"
    assert await log.pushes.registrations(n) == (hook("a", "moved:443"),)


async def test_a_registration_goes_with_its_letters_and_with_its_task(log: TaskLog) -> None:
    n, other = await begun(log, "t"), await begun(log, "other")
    await log.pushes.register(n, hook(), at_ns=2, most=10)
    await log.pushes.register(other, hook(), at_ns=2, most=10)
    assert await log.pushes.listened_to() == {n, other}
    await rest(log, n, "t")
    await rest(log, other, "other")
    assert await log.pushes.remove(n, "a")
    assert not await log.pushes.remove(n, "a")
    assert [each.task.id for each in await due(log)] == ["other"]
    await log.sweep(1000)
    assert (await due(log), await log.pushes.listened_to()) == ([], frozenset())


async def test_a_task_that_was_forgotten_meanwhile_is_not_registered_and_its_number_is_nobody_elses(
    log: TaskLog,
) -> None:
    n = await begun(log, "mine")
    await rest(log, n, "mine")
    await log.sweep(1000)
    with pytest.raises(UnknownTask):
        await log.pushes.register(n, hook(), at_ns=2, most=10)
    other = await begun(log, "another's")
    assert other != n
    await rest(log, other, "another's")
    assert (await due(log), await log.pushes.listened_to()) == ([], frozenset())


async def test_a_registration_of_no_task_is_gone_when_the_log_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"{file.TASKS} {push.SCHEMA} PRAGMA user_version = 2;")
    connection.execute("INSERT INTO push_configs VALUES (1, 'a', 'https://h/', 'h:443', '1.0', x'')")
    connection.commit()
    connection.close()
    log = SqliteTaskLog(path)
    await log.open()
    n = await begun(log, "t")
    await rest(log, n, "t")
    assert await due(log) == []
    await log.aclose()


async def test_a_log_from_before_there_was_push_opens_with_what_it_holds(tmp_path: Path) -> None:
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
    await rest(log, 1, "t")
    assert [each.task.id for each in await due(log)] == ["t"]
    await log.aclose()


async def test_a_letter_whose_task_cannot_be_read_is_given_up_and_holds_up_no_other(tmp_path: Path) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    for name in ("torn", "whole"):
        n = await begun(log, name)
        await log.pushes.register(n, hook(), at_ns=2, most=10)
        await rest(log, n, name)
    await log._commit(lambda c: c.execute("UPDATE contents SET task = x'ff01' WHERE n = 1"))
    for _ in range(2):
        assert [each.task.id for each in await due(log)] == ["whole"]
    total, (dead,) = await log.pushes.dead(most=5)
    assert (total, dead.task_id, dead.reason) == (1, "torn", "the task in it cannot be read")
    await log.aclose()


async def _contents(log: SqliteTaskLog) -> int:
    number: int = await log._read(lambda c: c.execute("SELECT count(*) FROM contents").fetchone()[0])
    return number


async def test_what_many_receivers_are_told_of_one_task_is_kept_once_and_goes_with_the_last_letter(
    tmp_path: Path,
) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    n = await begun(log, "t")
    for name in "abcd":
        await log.pushes.register(n, hook(name), at_ns=2, most=10)
    await rest(log, n, "t")
    await log.pushes.register(n, hook("late"), at_ns=10, most=10)
    letters = await due(log)
    assert (len(letters), await _contents(log)) == (5, 1)
    await log.pushes.delivered(letters[0].id)
    await log.pushes.give_up(letters[1].id, reason="why", at_ns=11)
    await log.pushes.remove(n, "c")
    assert ([each.task.id for each in await due(log)], await _contents(log)) == (["t", "t"], 1)
    await log.pushes.give_up(letters[3].id, reason="why", at_ns=11)
    await log.pushes.delivered(letters[4].id)
    assert await _contents(log) == 0
    await log.aclose()


async def test_letters_of_a_task_that_is_forgotten_take_along_what_they_say(tmp_path: Path) -> None:
    log = SqliteTaskLog(tmp_path / "tasks.db")
    await log.open()
    n = await begun(log, "t")
    await log.pushes.register(n, hook(), at_ns=2, most=10)
    await rest(log, n, "t")
    await log.forget("me")
    assert await _contents(log) == 0
    await log.aclose()


async def test_letters_that_waited_when_each_had_its_own_copy_are_still_delivered(tmp_path: Path) -> None:
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
