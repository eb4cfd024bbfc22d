"""The states of the SQLite writer, and what each of them does with a new job."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.waiting import await_until, within

from fleetwright_agent.storage.sqlite.engine.connection import WriterConnection
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind
from fleetwright_agent.storage.sqlite.engine.writer import SqliteWriter, WriterState


class Unusable(Exception):  # noqa: N818 - states a fact
    """The exception that callers of the writer get."""


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "w.db") as connection:
        connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE kept (what TEXT)")
    connection.close()
    return tmp_path / "w.db"


def opened(path: Path, *, linger: float = 0.02) -> SqliteWriter:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None, check_same_thread=False)

    connection = WriterConnection(connect, lambda error: Unusable(str(error)))
    return SqliteWriter("test-writer", connection, linger=linger)


@pytest.fixture
async def writer(path: Path) -> AsyncIterator[SqliteWriter]:
    writer = opened(path)
    yield writer
    await writer.aclose()


@pytest.fixture
async def patient(path: Path) -> AsyncIterator[SqliteWriter]:
    """A writer that commits unawaited jobs only together with others."""
    writer = opened(path, linger=600.0)
    yield writer
    await writer.aclose()


def keep(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO kept VALUES ('a')")


def count(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT count(*) FROM kept").fetchone()[0])


def committed(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return count(connection)
    finally:
        connection.close()


async def reached(writer: SqliteWriter, state: WriterState) -> None:
    """Wait until the writer is in that state."""
    await await_until(lambda: writer.state is state, f"the writer is {state}", shown=lambda: writer.state, pause=0)


async def test_submit_passes_from_new_to_idle(writer: SqliteWriter) -> None:
    states = [writer.state]
    done = writer.submit(keep)
    states.append(writer.state)
    await asyncio.sleep(0)
    states.append(writer.state)
    await done
    await reached(writer, WriterState.IDLE)
    states.append(writer.state)
    assert states == [WriterState.NEW, WriterState.GATHERING, WriterState.BUSY, WriterState.IDLE]


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        pytest.param(JobKind.SHORT, [WriterState.GATHERING, WriterState.BUSY], id="a short job"),
        pytest.param(JobKind.READ, [WriterState.GATHERING, WriterState.BUSY], id="a read"),
        pytest.param(JobKind.ALONE, [WriterState.GATHERING, WriterState.BUSY], id="a job outside transactions"),
        pytest.param(JobKind.LATER, [WriterState.IDLE, WriterState.IDLE], id="a job that no caller awaits"),
    ],
)
async def test_submit_leaves_idle_unless_no_caller_waits(
    writer: SqliteWriter, kind: JobKind, states: list[WriterState]
) -> None:
    await writer.submit(keep)
    await reached(writer, WriterState.IDLE)
    done = writer.submit(count, kind)
    found = [writer.state]
    await asyncio.sleep(0)
    found.append(writer.state)
    assert found == states
    async with within("the short work ends"):
        assert await done == 1
    await reached(writer, WriterState.IDLE)


async def test_read_leaves_unawaited_writes_open(patient: SqliteWriter, path: Path) -> None:
    await patient.submit(keep)
    later = patient.submit(keep, JobKind.LATER)
    assert await patient.submit(count, JobKind.READ) == 2
    await reached(patient, WriterState.OPEN)
    assert (later.done(), committed(path)) == (False, 1)


async def test_unawaited_write_is_committed_after_a_moment(writer: SqliteWriter, path: Path) -> None:
    await writer.submit(keep)
    later = writer.submit(keep, JobKind.LATER)
    await writer.submit(count, JobKind.READ)
    async with within("the later work ends"):
        await later
    assert committed(path) == 2


async def test_open_writes_commit_with_the_next_write(patient: SqliteWriter, path: Path) -> None:
    await patient.submit(keep)
    later = patient.submit(keep, JobKind.LATER)
    await patient.submit(count, JobKind.READ)
    await reached(patient, WriterState.OPEN)
    await patient.submit(keep, JobKind.SHORT)
    assert (later.done(), committed(path)) == (True, 3)


@pytest.mark.parametrize("state", [WriterState.NEW, WriterState.GATHERING, WriterState.BUSY, WriterState.OPEN])
async def test_aclose_commits_from_every_state(patient: SqliteWriter, path: Path, state: WriterState) -> None:
    jobs = []
    if state is not WriterState.NEW:
        await patient.submit(keep)
        jobs.append(patient.submit(keep, JobKind.LATER))
        jobs.append(patient.submit(count, JobKind.READ if state is WriterState.OPEN else JobKind.AWAITED))
    await reached(patient, state)
    await patient.aclose()
    assert all(job.done() and job.exception() is None for job in jobs)
    assert (patient.state, committed(path)) == (WriterState.CLOSED, len(jobs))
    with pytest.raises(Unusable, match="nothing writes it any more"):
        await patient.submit(keep)


# The thread ends by an exception on purpose.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_failed_writer_fails_waiting_and_later_jobs(writer: SqliteWriter, path: Path) -> None:
    def die(db: sqlite3.Connection) -> None:
        keep(db)
        raise SystemExit

    first = writer.submit(die)
    await asyncio.sleep(0)
    waiting = writer.submit(keep)
    answers = await asyncio.gather(first, waiting, return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unusable, Unusable]
    assert writer.state is WriterState.FAILED
    with pytest.raises(Unusable):
        await writer.submit(keep)
    await writer.aclose()
    assert (writer.state, committed(path)) == (WriterState.CLOSED, 0)
