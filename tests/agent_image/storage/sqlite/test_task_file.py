"""The file of the task log: damage, full disks, migrations, and what is written when."""

import sqlite3
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskState
from tests.support.agent.task_values import COMPLETED, WAITING, accepted, claim, ended, finished, new, piece

from fleetwright_a2a.task_events import status_event
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.protocol.interrupts import ask_message
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    EventRecord,
    Key,
    StoredTask,
    TaskQuery,
)


async def test_rest_deletes_events_and_keeps_later_ones(tmp_path: Path) -> None:
    def events(connection: sqlite3.Connection) -> int:
        count: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        return count

    log = await open_at(tmp_path / "tasks.db")
    run = await accepted(log, "t")
    for number in range(2, 2000):
        log.append(run, EventRecord(number, number, piece("x")))
    assert await log._commit(events) == 1998
    final = new("t")
    final.status.state = WAITING
    await log.rest(run, (EventRecord(2000, 9, ended("t", WAITING)),), final)
    assert await log._commit(events) == 0
    stored = await log.find("me", "t")
    assert stored is not None
    record = EventRecord(2001, 11, Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="yes")]))
    assert isinstance(await log.resume(claim("yes"), stored, (record,)), AcceptedClaim)
    after = await log.find("me", "t")
    assert after is not None
    assert (after.seq, after.task.history[-1].parts[0].text) == (2001, "yes")
    await log.aclose()


async def open_at(path: Path) -> SqliteTaskLog:
    log = SqliteTaskLog(path)
    await log.open()
    return log


def evidence(folder: Path) -> Path:
    return next(folder.glob("tasks.db.damaged-*"))


async def test_open_keeps_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    path.write_bytes(b"not a database at all" * 1000)
    for _ in range(2):  # A restart must not turn the lost history into an empty one.
        log = SqliteTaskLog(path)
        with pytest.raises(TaskLogUnavailable, match=r"damaged and was kept as tasks\.db\.damaged-"):
            await log.open()
        assert log.problem is not None
        assert "move it away" in log.problem
        await log.aclose()
    kept = evidence(tmp_path)
    assert kept.read_bytes().startswith(b"not a database")
    kept.unlink()
    log = await open_at(path)
    assert log.problem is None
    await log.aclose()


async def test_open_notices_a_torn_page(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    log = await open_at(path)
    for n in range(200):
        await accepted(log, f"t{n}")
    await log.aclose()
    raw = bytearray(path.read_bytes())
    raw[4096 * 5 : 4096 * 6] = b"\xff" * 4096
    path.write_bytes(raw)
    with pytest.raises(TaskLogUnavailable, match="damaged"):
        await SqliteTaskLog(path).open()
    assert evidence(tmp_path).read_bytes() == raw


async def test_open_refuses_a_newer_version(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(TaskLogUnavailable, match="newer version"):
        await SqliteTaskLog(path).open()
    assert path.read_bytes() == before


async def test_open_migrates_a_log_without_expiry(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    for name, expires_ns in (("an approval", 5_000_000_000), ("a question", None)):
        run = await accepted(log, name)
        message = ask_message(
            InterruptRequest(InterruptKind.APPROVAL, "May it?", {}, identity="1"), message_id="m", expires_ns=expires_ns
        )
        event = status_event(name, "c", WAITING, at_ns=9, message=message)
        await log.rest(run, (EventRecord(2, 9, event),), Task(id=name, context_id="c", status=event.status))
    added = {"tasks": ("expires_ns", "taken_up", "began_ns", "epoch", "after_n"), "numbers": ("alive_ns",)}
    before = [
        *(f"DROP INDEX {index}" for index in ("tasks_by_expiry", "tasks_waiting")),
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, columns in added.items() for column in columns),
        "DROP TABLE damaged",
        "DROP TABLE delegations",
        "DROP TABLE dedup_keys",
        *(
            f"DROP TRIGGER {trigger}"
            for trigger in ("content_delivered", "content_given_up", "task_numbered", "task_rests")
        ),
        "DROP TABLE contents",
        "ALTER TABLE outbox DROP COLUMN content",
        "ALTER TABLE outbox ADD COLUMN task BLOB",
        "PRAGMA user_version = 3",
    ]
    await log._commit(lambda c: [c.execute(word) for word in before])
    await log.aclose()
    log = await open_at(tmp_path / "tasks.db")
    assert await log.expired(4_999_999_999) == ()
    assert await log.expired(5_000_000_000) == (Key("me", "an approval"),)
    run = await accepted(log, "a new one")
    log.append(run, EventRecord(2, 9, status_event("a new one", "c", TaskState.TASK_STATE_WORKING, at_ns=9)))
    await log.of("me")  # By then the log has written its buffer.
    await log.rest(run, (EventRecord(3, 9, ended("a new one")),), new("a new one"))
    assert await log._read(lambda c: c.execute("SELECT last FROM numbers").fetchall()) == [(run.n,)]
    assert await log._read(lambda c: c.execute("SELECT count(*) FROM events").fetchone()) == (0,)
    await log.aclose()


async def test_full_disk_is_a_problem_until_it_has_room(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    run = await accepted(log, "t")
    pages = await log._commit(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await log._commit(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    big = new("t")
    big.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="x" * 100_000)]))
    with pytest.raises(TaskLogUnavailable):
        await log.rest(run, (EventRecord(2, 2, ended("t")),), big)
    assert log.problem is not None
    await log._commit(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
    await log.rest(run, (EventRecord(2, 2, ended("t")),), big)
    assert log.problem is None
    stored = await log.find("me", "t")
    assert isinstance(stored, StoredTask)
    assert not stored.busy
    await log.aclose()


async def test_failed_read_is_a_problem_until_the_next(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    await accepted(log, "t")
    failing = True
    await log._read(lambda c: c.set_progress_handler(lambda: failing, 1))
    with pytest.raises(TaskLogUnavailable):
        await log.find("me", "t")
    assert "cannot be read" in (log.problem or "")
    failing = False
    assert await log.find("me", "t") is not None
    assert log.problem is None
    await log.aclose()


async def test_damage_is_a_problem_until_the_restart(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    log = await open_at(path)
    for n in range(200):
        await finished(log, f"t{n}")
    await log.aclose()
    log = await open_at(path)
    size = path.stat().st_size
    with path.open("r+b") as raw:
        raw.seek(4096 * 10)
        raw.write(b"\xff" * (size - 4096 * 10))
    with pytest.raises(TaskLogUnavailable, match="damaged"):
        await log.page(TaskQuery(owner="me", size=100))
    await log._read(lambda c: c.execute("SELECT 1").fetchone())
    assert "restart the agent" in (log.problem or "")
    await log.aclose()
    with pytest.raises(TaskLogUnavailable, match="kept as"):
        await SqliteTaskLog(path).open()


async def test_short_task_is_written_twice(tmp_path: Path) -> None:
    """No reader asks for intermediate states, so the log buffers them and writes only the final state."""
    log = await open_at(tmp_path / "tasks.db")
    run = await accepted(log, "t")
    log.began(run, 7, again=False)
    log.append(run, EventRecord(2, 8, status_event("t", "c", TaskState.TASK_STATE_WORKING, at_ns=8)))
    await accepted(log, "other")
    found = await log.find("me", "t")
    assert found is not None
    assert (found.seq, found.began_ns) == (1, None)
    await log.rest(
        run,
        (EventRecord(3, 9, ended("t", COMPLETED)),),
        Task(id="t", context_id="c", status=ended("t", COMPLETED).status),
    )
    await log.page(TaskQuery("me", size=1))
    found = await log.find("me", "t")
    assert found is not None
    assert (found.seq, found.busy, found.began_ns) == (3, False, None)
    await log.aclose()


async def test_resume_resets_the_start_of_the_work(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    run = await accepted(log, "t")
    log.began(run, 7, again=True)
    await log.rest(
        run, (EventRecord(2, 9, ended("t", WAITING)),), Task(id="t", context_id="c", status=ended("t", WAITING).status)
    )
    waits = await log.find("me", "t")
    assert waits is not None
    assert waits.began_ns == 7
    await log.resume(claim("yes"), waits, (EventRecord(3, 11, Message(message_id="m")),))
    works = await log.find("me", "t")
    assert works is not None
    assert works.began_ns is None
    await log.aclose()


async def test_open_migrates_a_log_without_queue_order(tmp_path: Path) -> None:
    """Tasks from before keep the order of their numbers, and a continued task gets its place behind them."""
    log = await open_at(tmp_path / "tasks.db")
    await finished(log, "parked", WAITING)
    await accepted(log, "busy")
    before = (
        "ALTER TABLE tasks DROP COLUMN after_n",
        "DROP TABLE delegations",
        "DROP TABLE dedup_keys",
        "PRAGMA user_version = 11",
    )
    await log._commit(lambda c: [c.execute(word) for word in before])
    await log.aclose()
    log = await open_at(tmp_path / "tasks.db")
    parked = await log.find("me", "parked")
    assert parked is not None
    await log.resume(claim("yes"), parked, (EventRecord(3, 11, Message(message_id="m")),))
    assert await log.busy() == (Key("me", "busy"), Key("me", "parked"))
    await log.aclose()


async def test_open_migrates_a_log_without_epochs(tmp_path: Path) -> None:
    """Tasks from before epochs are owned like new ones: the next process takes them up, and its writes count."""
    log = await open_at(tmp_path / "tasks.db")
    await accepted(log, "busy")
    await finished(log, "parked", WAITING)
    before = (
        *(f"ALTER TABLE tasks DROP COLUMN {column}" for column in ("epoch", "after_n")),
        "DROP TABLE delegations",
        "DROP TABLE dedup_keys",
        "PRAGMA user_version = 10",
    )
    await log._commit(lambda c: [c.execute(word) for word in before])
    await log.aclose()
    log = await open_at(tmp_path / "tasks.db")
    left, parked = await log.find("me", "busy"), await log.find("me", "parked")
    assert left is not None
    assert parked is not None
    taken = await log.take_up(left)
    assert taken is not None
    await log.rest(taken.ownership, (EventRecord(2, 9, ended("busy")),), new("busy"))
    answer = await log.resume(claim("yes"), parked, (EventRecord(3, 11, Message(message_id="m")),))
    assert isinstance(answer, AcceptedClaim)
    assert await log.busy() == (Key("me", "parked"),)
    await log.aclose()
