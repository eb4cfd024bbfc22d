"""The contract of the task log, which both implementations must meet."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus

from fleetwright_a2a.task_events import Event, status_event
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.protocol.interrupts import ask_message
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.push_store import Registration
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.task_log import (
    AcceptedClaim,
    Claim,
    DeletedTasks,
    DuplicateClaim,
    EventRecord,
    Key,
    MessageNotAccepted,
    StoredTask,
    TaskLog,
    TaskLogUnavailable,
    TaskQuery,
    TooManyWaitingTasks,
)

COMPLETED = TaskState.TASK_STATE_COMPLETED
WAITING = TaskState.TASK_STATE_INPUT_REQUIRED


@pytest.fixture(params=[pytest.param("sqlite", id="in SQLite"), pytest.param("memory", id="in memory")])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskLog]:
    made: TaskLog = SqliteTaskLog(tmp_path / "tasks.db") if request.param == "sqlite" else MemoryTaskLog()
    await made.open()
    yield made
    await made.aclose()


def new(name: str) -> Task:
    return Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))


def claim(name: str, *, owner: str = "me", content: bytes = b"1") -> Claim:
    return Claim(owner=owner, message_id=f"m-{name}", digest=content)


def piece(text: str) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(append=True, artifact=Artifact(artifact_id="a", parts=[Part(text=text)]))


def ended(name: str, state: TaskState = COMPLETED, *, at_ns: int = 9) -> Event:
    return status_event(name, "c", state, at_ns=at_ns)


async def accepted(log: TaskLog, name: str, *, at_ns: int = 1, owner: str = "me") -> int:
    answer = await log.accept(claim(name, owner=owner), new(name), at_ns=at_ns)
    assert isinstance(answer, AcceptedClaim)
    return answer.n


async def finished(
    log: TaskLog, name: str, state: TaskState = COMPLETED, *, at_ns: int = 9, expires_ns: int | None = None
) -> int:
    n = await accepted(log, name)
    final = new(name)
    final.status.state = state
    await log.rest(n, (EventRecord(2, at_ns, ended(name, state)),), final, expires_ns=expires_ns)
    return n


async def test_the_same_claim_finds_its_task_and_other_content_or_owner_is_another(log: TaskLog) -> None:
    await accepted(log, "t")
    assert await log.accept(claim("t"), new("again"), at_ns=2) == DuplicateClaim("t")
    assert isinstance(await log.accept(claim("t", content=b"2"), new("u"), at_ns=2), AcceptedClaim)
    assert isinstance(await log.accept(claim("t", owner="you"), new("t"), at_ns=2), AcceptedClaim)
    assert await log.find("me", "again") is None


async def test_nothing_is_appended_to_a_task_at_rest(log: TaskLog) -> None:
    n = await finished(log, "t")
    log.append(n, EventRecord(3, 10, piece("late")))
    await accepted(log, "other")
    with pytest.raises(TaskLogUnavailable):
        await log.rest(n, (EventRecord(3, 10, ended("t")),), new("t"))
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.seq, stored.busy, len(stored.task.artifacts)) == (2, False, 0)
    assert stored.task.status.state == COMPLETED


async def test_pieces_are_there_once_all_tasks_were_asked_for(log: TaskLog) -> None:
    n = await accepted(log, "t")
    for number, text in enumerate(["one ", "two ", "three"], start=2):
        log.append(n, EventRecord(number, number, piece(text)))
    await log.page(TaskQuery("me", size=1))
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.seq, stored.busy) == (4, True)
    assert [part.text for part in stored.task.artifacts[0].parts] == ["one two three"]


async def test_an_interrupted_task_goes_on_once_with_the_message_that_continues_it(log: TaskLog) -> None:
    await finished(log, "t", WAITING)
    stored = await log.find("me", "t")
    assert stored is not None
    message = Message(message_id="m2", role=Role.ROLE_USER, parts=[Part(text="yes")])
    record = EventRecord(3, 11, message)
    answers = await asyncio.gather(
        log.resume(claim("yes"), stored, (record,)),
        log.resume(claim("no"), stored, (record,)),
        log.resume(claim("yes"), stored, (record,)),
    )
    assert answers == [AcceptedClaim(stored.n), MessageNotAccepted(), DuplicateClaim("t")]
    after = await log.find("me", "t")
    assert after is not None
    assert (after.busy, after.task.history[-1].parts[0].text) == (True, "yes")
    assert await log.busy() == (Key("me", "t"),)


async def test_an_interrupted_task_is_ended_once_and_not_when_it_has_gone_on(log: TaskLog) -> None:
    await finished(log, "t", WAITING)
    await finished(log, "u", WAITING)
    parked, other = await log.find("me", "t"), await log.find("me", "u")
    assert parked is not None
    assert other is not None
    final = new("t")
    final.status.state = TaskState.TASK_STATE_CANCELED
    record = EventRecord(3, 11, ended("t", TaskState.TASK_STATE_CANCELED))
    assert await log.end(parked, record, final)
    assert not await log.end(parked, record, final)
    assert isinstance(
        await log.resume(claim("on"), other, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert not await log.end(other, record, final)
    assert await log.busy() == (Key("me", "u"),)


async def test_a_finished_task_does_not_go_on(log: TaskLog) -> None:
    await finished(log, "t")
    stored = await log.find("me", "t")
    assert stored is not None
    assert await log.resume(claim("x"), stored, (EventRecord(3, 11, Message(message_id="m")),)) == MessageNotAccepted()


async def test_only_busy_tasks_are_found_after_a_crash(log: TaskLog) -> None:
    await finished(log, "done")
    await finished(log, "parked", WAITING)
    await accepted(log, "running", at_ns=20)
    await accepted(log, "another", at_ns=10, owner="you")
    assert await log.busy() == (Key("me", "running"), Key("you", "another"))


async def test_tasks_are_found_that_may_not_wait_any_longer(log: TaskLog) -> None:
    await finished(log, "early", WAITING, expires_ns=10)
    await finished(log, "late", WAITING, expires_ns=20)
    await finished(log, "for ever", WAITING)
    await finished(log, "answered", WAITING, expires_ns=10)
    answered = await log.find("me", "answered")
    assert answered is not None
    assert isinstance(
        await log.resume(claim("yes"), answered, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert await log.expired(9) == ()
    assert await log.expired(10) == (Key("me", "early"),)
    assert set(await log.expired(20)) == {Key("me", "early"), Key("me", "late")}
    await log.rest(answered.n, (EventRecord(4, 12, ended("answered", WAITING)),), new("answered"))
    assert await log.expired(10) == (Key("me", "early"),)


async def test_with_so_many_tasks_that_wait_no_other_begins(log: TaskLog) -> None:
    await finished(log, "one", WAITING)
    await finished(log, "two", WAITING)
    await finished(log, "done")
    assert await log.accept(claim("three"), new("three"), at_ns=1, most_waiting=2) == TooManyWaitingTasks()
    assert await log.find("me", "three") is None
    assert await log.accept(claim("two"), new("again"), at_ns=1, most_waiting=2) == DuplicateClaim("two")
    assert isinstance(await log.accept(claim("t", owner="you"), new("t"), at_ns=1, most_waiting=2), AcceptedClaim)
    waits = await log.find("me", "two")
    assert waits is not None
    assert isinstance(
        await log.resume(claim("yes"), waits, (EventRecord(3, 11, Message(message_id="m")),)), AcceptedClaim
    )
    assert isinstance(await log.accept(claim("three"), new("three"), at_ns=1, most_waiting=2), AcceptedClaim)


async def test_pages_hold_one_owners_tasks_newest_first_with_ties_by_identifier(log: TaskLog) -> None:
    for name, at_ns in [("a", 1), ("b", 2), ("c", 2), ("d", 3)]:
        await accepted(log, name, at_ns=at_ns)
    await accepted(log, "z", at_ns=4, owner="you")
    first = await log.page(TaskQuery(owner="me", size=2))
    assert [s.task.id for s in first.tasks] == ["d", "c"]
    assert first.total == 4
    second = await log.page(TaskQuery(owner="me", size=2, after=first.following))
    assert ([s.task.id for s in second.tasks], second.following) == (["b", "a"], None)
    since = await log.page(TaskQuery(owner="me", size=9, since_ns=3))
    assert [s.task.id for s in since.tasks] == ["d"]


async def test_a_page_of_large_tasks_is_shorter_and_the_next_goes_on_behind_it(log: TaskLog) -> None:
    for name, megabytes in [("a", 3), ("b", 3), ("c", 5), ("d", 0)]:
        n = await accepted(log, name)
        final = new(name)
        final.status.state = COMPLETED
        final.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="x" * megabytes * 2**20)]))
        await log.rest(n, (EventRecord(2, 9, ended(name)),), final)
    pages, after = [], None
    while not pages or after:
        page = await log.page(TaskQuery(owner="me", size=9, after=after))
        pages.append([stored.task.id for stored in page.tasks])
        after = page.following
        assert page.total == 4
    assert pages == [["d", "c"], ["b", "a"]]
    assert [s.task.id for s in (await log.page(TaskQuery(owner="me", size=1))).tasks] == ["d"]


async def test_old_ended_tasks_are_forgotten_and_their_claims_with_them(log: TaskLog) -> None:
    await finished(log, "old", at_ns=5)
    await finished(log, "young", at_ns=50)
    await finished(log, "parked", WAITING, at_ns=5)
    await accepted(log, "running", at_ns=5)
    assert await log.sweep(before_ns=10) == 1
    left = await log.page(TaskQuery(owner="me", size=9))
    assert {s.task.id for s in left.tasks} == {"young", "parked", "running"}
    assert isinstance(await log.accept(claim("old"), new("old"), at_ns=60), AcceptedClaim)


async def test_many_tasks_at_once_share_commits_and_lose_nothing(log: TaskLog) -> None:
    await asyncio.gather(*(finished(log, f"t{n}") for n in range(100)))
    page = await log.page(TaskQuery(owner="me", size=100))
    assert page.total == 100
    assert all(not s.busy for s in page.tasks)


async def test_the_events_of_a_task_at_rest_take_no_room_and_its_next_ones_are_kept(tmp_path: Path) -> None:
    def events(connection: sqlite3.Connection) -> int:
        count: int = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        return count

    log = await open_at(tmp_path / "tasks.db")
    n = await accepted(log, "t")
    for number in range(2, 2000):
        log.append(n, EventRecord(number, number, piece("x")))
    assert await log._commit(events) == 1998
    final = new("t")
    final.status.state = WAITING
    await log.rest(n, (EventRecord(2000, 9, ended("t", WAITING)),), final)
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


async def test_r3_a_file_that_is_no_database_is_kept_and_never_replaced_in_silence(tmp_path: Path) -> None:
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


async def test_r3_a_torn_page_is_noticed_when_the_log_is_opened(tmp_path: Path) -> None:
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


async def test_r3_a_log_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(TaskLogUnavailable, match="newer version"):
        await SqliteTaskLog(path).open()
    assert path.read_bytes() == before


async def test_a_log_from_before_expiry_was_kept_apart_knows_how_long_its_tasks_wait(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    for name, expires_ns in (("an approval", 5_000_000_000), ("a question", None)):
        n = await accepted(log, name)
        message = ask_message(
            InterruptRequest(InterruptKind.APPROVAL, "May it?", {}, identity="1"), message_id="m", expires_ns=expires_ns
        )
        event = status_event(name, "c", WAITING, at_ns=9, message=message)
        await log.rest(n, (EventRecord(2, 9, event),), Task(id=name, context_id="c", status=event.status))
    added = {"tasks": ("expires_ns", "taken_up", "began_ns"), "numbers": ("alive_ns",)}
    before = [
        *(f"DROP INDEX {index}" for index in ("tasks_by_expiry", "tasks_waiting")),
        *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, columns in added.items() for column in columns),
        "DROP TABLE damaged",
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
    n = await accepted(log, "a new one")
    log.append(n, EventRecord(2, 9, status_event("a new one", "c", TaskState.TASK_STATE_WORKING, at_ns=9)))
    await log.of("me")  # By then the log has written its buffer.
    await log.rest(n, (EventRecord(3, 9, ended("a new one")),), new("a new one"))
    assert await log._read(lambda c: c.execute("SELECT last FROM numbers").fetchall()) == [(n,)]
    assert await log._read(lambda c: c.execute("SELECT count(*) FROM events").fetchone()) == (0,)
    await log.aclose()


async def test_r3_a_disk_that_is_full_is_told_and_forgiven_when_it_has_room_again(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    n = await accepted(log, "t")
    pages = await log._commit(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    await log._commit(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchone())
    big = new("t")
    big.artifacts.append(Artifact(artifact_id="a", parts=[Part(text="x" * 100_000)]))
    with pytest.raises(TaskLogUnavailable):
        await log.rest(n, (EventRecord(2, 2, ended("t")),), big)
    assert log.problem is not None
    await log._commit(lambda c: c.execute("PRAGMA max_page_count = 100000").fetchone())
    await log.rest(n, (EventRecord(2, 2, ended("t")),), big)
    assert log.problem is None
    stored = await log.find("me", "t")
    assert isinstance(stored, StoredTask)
    assert not stored.busy
    await log.aclose()


async def test_a_read_that_fails_is_told_and_forgiven_by_the_next_that_succeeds(tmp_path: Path) -> None:
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


async def test_r3_damage_that_a_read_meets_is_told_until_the_restart(tmp_path: Path) -> None:
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


async def _three(log: TaskLog) -> None:
    """Add a task to each of two conversations, and a task of another owner."""
    for owner, context, task in (("a", "c1", "t1"), ("a", "c2", "t2"), ("b", "c1", "t1")):
        await log.accept(Claim(owner, task + context, b""), Task(id=task, context_id=context), at_ns=1)


@pytest.mark.parametrize(
    ("context", "found", "left"),
    [
        pytest.param("", ["t1", "t2"], [Key("b", "t1")], id="all of an owner"),
        pytest.param("c2", ["t2"], [Key("a", "t1"), Key("b", "t1")], id="one conversation"),
        pytest.param("c3", [], [Key("a", "t1"), Key("a", "t2"), Key("b", "t1")], id="a conversation that is not there"),
    ],
)
async def test_an_owner_or_a_conversation_is_forgotten_whole_and_leaves_no_trace(log, context, found, left):
    await _three(log)
    await log.pushes.register(2, Registration("r", "https://r.example", "r.example:443", "1.0", b""), at_ns=1, most=5)
    assert [key.task_id for key in await log.of("a", context)] == found
    assert await log.counted("a", context) == DeletedTasks(len(found), found.count("t2"))
    await log.forget("a", context)
    await log.scrub()
    assert (2 in await log.pushes.listened_to()) is ("t2" not in found)
    assert list(await log.busy()) == left
    assert await log.of("a", context) == ()
    # Erasure also deletes the claim, so the same message starts a new task.
    again = await log.accept(Claim("a", "t2c2", b""), Task(id="t2", context_id="c2"), at_ns=2)
    assert isinstance(again, AcceptedClaim) is ("t2" in found)


async def test_conversations_with_tasks_that_run_or_wait_are_held(log):
    await _three(log)
    for n, state in ((1, COMPLETED), (2, WAITING)):
        task = Task(id=f"t{n}", context_id=f"c{n}", status=TaskStatus(state=state))
        await log.rest(n, (EventRecord(2, 2, status_event(task.id, task.context_id, state, at_ns=2)),), task)
    assert await log.held() == {("a", "c2"), ("b", "c1")}


@pytest.mark.parametrize(
    ("alive", "updated", "opened", "wanted"),
    [
        pytest.param(0, 130, 150, 120, id="its own last word was the last sign of life"),
        pytest.param(140, 130, 150, 110, id="the process lived on, in silence"),
        pytest.param(90, 100, 150, 150, id="nobody said anything since it began"),
        pytest.param(140, 130, 120, 100, id="the clock was set back meanwhile"),
    ],
)
async def test_when_work_began_is_told_as_if_no_time_had_passed_between_processes(
    tmp_path: Path, alive: int, updated: int, opened: int, wanted: int
) -> None:
    path = tmp_path / "tasks.db"
    log = await open_at(path)
    n = await accepted(log, "t", at_ns=100)
    log.began(n, 100, again=False)
    log.began(n, 105, again=False)
    log.alive(alive)
    log.append(n, EventRecord(2, updated, status_event("t", "c", TaskState.TASK_STATE_WORKING, at_ns=updated)))
    await log.aclose()
    log = SqliteTaskLog(path, now_ns=lambda: opened)
    await log.open()
    stored = await log.find("me", "t")
    assert stored is not None
    assert (stored.began_ns, stored.taken_up) == (wanted, 1)
    await log.aclose()


async def test_a_task_that_is_over_soon_is_written_twice_whatever_others_do(tmp_path: Path) -> None:
    """No reader asks for intermediate states, so the log buffers them and writes only the final state."""
    log = await open_at(tmp_path / "tasks.db")
    n = await accepted(log, "t")
    log.began(n, 7, again=False)
    log.append(n, EventRecord(2, 8, status_event("t", "c", TaskState.TASK_STATE_WORKING, at_ns=8)))
    await accepted(log, "other")
    found = await log.find("me", "t")
    assert found is not None
    assert (found.seq, found.began_ns) == (1, None)
    await log.rest(
        n,
        (EventRecord(3, 9, ended("t", COMPLETED)),),
        Task(id="t", context_id="c", status=ended("t", COMPLETED).status),
    )
    await log.page(TaskQuery("me", size=1))
    found = await log.find("me", "t")
    assert found is not None
    assert (found.seq, found.busy, found.began_ns) == (3, False, None)
    await log.aclose()


async def test_what_goes_on_with_an_answer_begins_anew(tmp_path: Path) -> None:
    log = await open_at(tmp_path / "tasks.db")
    n = await accepted(log, "t")
    log.began(n, 7, again=True)
    await log.rest(
        n, (EventRecord(2, 9, ended("t", WAITING)),), Task(id="t", context_id="c", status=ended("t", WAITING).status)
    )
    waits = await log.find("me", "t")
    assert waits is not None
    assert waits.began_ns == 7
    await log.resume(claim("yes"), waits, (EventRecord(3, 11, Message(message_id="m")),))
    works = await log.find("me", "t")
    assert works is not None
    assert works.began_ns is None
    await log.aclose()
