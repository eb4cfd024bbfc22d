"""Writes on the writer thread and on the event loop: a failed write does not affect other writes."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import within

from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.tasks.writer import TaskLogWriter

Connected = TypeVar("Connected", bound=sqlite3.Connection)
Work = Callable[[sqlite3.Connection], Any]


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[TaskLogWriter]:
    made = TaskLogWriter(opened(tmp_path / "w.db"))
    yield made
    await made.aclose()


def opened(path: Path, factory: type[Connected] = sqlite3.Connection) -> Connected:  # type: ignore[assignment] # mypy#3737
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=factory)
    connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE kept (what TEXT UNIQUE)")
    return connection


def keeps(what: Any) -> Work:
    return lambda connection: connection.execute("INSERT INTO kept VALUES (?)", (what,)).rowcount


def kept(connection: sqlite3.Connection) -> list[str]:
    return [what for (what,) in connection.execute("SELECT what FROM kept ORDER BY what")]


def breaks(error: BaseException, *, first: Work) -> Work:
    def work(connection: sqlite3.Connection) -> None:
        first(connection)
        raise error

    return work


@pytest.mark.parametrize(
    "ask", [TaskLogWriter.submit, TaskLogWriter.submit_short], ids=["by the thread", "by the event loop"]
)
@pytest.mark.parametrize(
    ("broken", "told"),
    [
        pytest.param(keeps(2**70), OverflowError, id="it cannot be bound"),
        pytest.param(breaks(RuntimeError("inside"), first=keeps("half")), RuntimeError, id="it breaks in its middle"),
        pytest.param(
            breaks(sqlite3.OperationalError("disk"), first=keeps("half")), TaskLogUnavailable, id="the file refuses"
        ),
    ],
)
async def test_submit_undoes_only_the_failed_job(
    writer: TaskLogWriter, ask: Any, broken: Work, told: type[Exception]
) -> None:
    async with within("the writer carries out the work"):
        answers = await asyncio.gather(
            ask(writer, keeps("a")), ask(writer, broken), ask(writer, keeps("b")), return_exceptions=True
        )
        assert (answers[0], type(answers[1]).__mro__.count(told), answers[2]) == (1, 1, 1)
        assert await writer.submit(kept) == ["a", "b"]
    assert writer.problem is None


@pytest.mark.parametrize(
    "ask", [TaskLogWriter.submit, TaskLogWriter.submit_short], ids=["by the thread", "by the event loop"]
)
async def test_submit_fails_every_job_of_a_lost_transaction(writer: TaskLogWriter, ask: Any) -> None:
    def undone(connection: sqlite3.Connection) -> None:
        connection.rollback()
        raise sqlite3.OperationalError("disk I/O error")

    async with within("the writer carries out the work"):
        await writer.submit(keeps("before"))
        answers = await asyncio.gather(ask(writer, undone), return_exceptions=True)
        assert isinstance(answers[0], TaskLogUnavailable)
        assert writer.problem == "the task log cannot be written: disk I/O error"
        answers = await asyncio.gather(ask(writer, undone), ask(writer, keeps("beside")), return_exceptions=True)
        assert answers[1] == 1
        assert await writer.submit(kept) == ["before", "beside"]
    assert writer.problem is None


async def test_post_logs_a_failed_job(writer: TaskLogWriter, caplog: pytest.LogCaptureFixture) -> None:
    async with within("the writer carries out the work"):
        writer.post(breaks(RuntimeError("inside"), first=keeps("half")))
        assert await writer.submit(kept) == []
    assert "a background write to the task log failed" in caplog.text


# The thread ends by an exception on purpose.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_submit_fails_after_the_thread_has_died(writer: TaskLogWriter) -> None:
    ending = asyncio.ensure_future(writer.submit(breaks(SystemExit(), first=keeps("half"))))
    async with within("the writer carries out the work"):
        while "restart the agent" not in (writer.problem or ""):  # noqa: ASYNC110 - a thread that ends tells nobody
            await asyncio.sleep(0.01)
        with pytest.raises(TaskLogUnavailable):
            await writer.submit(keeps("late"))
    ending.cancel()


class Seen:
    """A recorder of the order and the thread of each piece of work."""

    def __init__(self) -> None:
        self.by: list[tuple[str, bool]] = []

    def work(self, name: str) -> Work:
        def work(connection: sqlite3.Connection) -> None:
            keeps(name)(connection)
            self.by.append((name, threading.current_thread() is threading.main_thread()))

        return work


async def test_submit_short_executes_on_the_event_loop(writer: TaskLogWriter) -> None:
    seen = Seen()
    async with within("the writer carries out the work"):
        await writer.submit_short(seen.work("a"))
        long = asyncio.ensure_future(writer.submit(seen.work("b")))
        await asyncio.sleep(0)
        await asyncio.gather(long, writer.submit_short(seen.work("c")))
        await writer.submit_short(seen.work("d"))
    assert seen.by == [("a", True), ("b", False), ("c", True), ("d", True)]


class SlowConnection(sqlite3.Connection):
    """A connection that commits when the test permits it."""

    gate: threading.Event

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == "COMMIT":
            self.gate.wait(ceiling())
        return super().execute(statement, *values)


async def test_submit_short_waits_for_a_running_commit(tmp_path: Path) -> None:
    connection = opened(tmp_path / "w.db", SlowConnection)
    connection.gate = gate = threading.Event()
    seen, writer = Seen(), TaskLogWriter(connection)
    async with within("the writer carries out the work"):
        first = asyncio.ensure_future(writer.submit_short(seen.work("a")))
        await asyncio.sleep(0.05)
        later = [asyncio.ensure_future(writer.submit_short(seen.work(name))) for name in "bc"]
        await asyncio.sleep(0.05)
        assert seen.by == [("a", True)]
        assert not first.done()
        gate.set()
        await asyncio.gather(first, *later)
        assert seen.by == [("a", True), ("b", True), ("c", True)]
        await writer.aclose()


@pytest.mark.parametrize("closed", [False, True], ids=["and the agent goes on", "and the agent ends meanwhile"])
async def test_submit_short_does_not_block_on_a_foreign_lock(
    writer: TaskLogWriter, tmp_path: Path, closed: bool
) -> None:
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    async with within("the writer carries out the work"):
        writing = [asyncio.ensure_future(writer.submit_short(keeps(what))) for what in "ab"]
        longest, until = 0.0, time.monotonic() + 1
        while time.monotonic() < until:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - began)
        print(f"the event loop was held up for {longest * 1000:.0f} ms at most")  # noqa: T201 - the figure
        assert longest < 0.9 * machine_factor()
        assert not any(each.done() for each in writing)
        closing = [asyncio.ensure_future(writer.aclose())] if closed else []
        await asyncio.sleep(0.01)
        other.close()
        await asyncio.gather(*writing, *closing)
    with sqlite3.connect(tmp_path / "w.db") as found:
        assert kept(found) == ["a", "b"]


# The thread ends by an exception on purpose.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_submit_fails_when_the_thread_dies(writer: TaskLogWriter) -> None:
    async with within("the writer carries out the work"):
        ends, beside = breaks(SystemExit(), first=keeps("half")), keeps("beside")
        waiting = [writer.submit(keeps("before")), writer.submit(ends), writer.submit(beside)]
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert [isinstance(answer, TaskLogUnavailable) for answer in answers[1:]] == [True, True]
        late = writer.post(keeps("late"))
        await asyncio.wait([late])
    assert isinstance(late.exception(), TaskLogUnavailable)


async def test_submit_is_rejected_while_closing(tmp_path: Path) -> None:
    writer = TaskLogWriter(opened(tmp_path / "w.db"))
    async with within("the writer carries out the work"):
        await writer.submit_short(keeps("first"))
        closing = asyncio.ensure_future(writer.aclose())
        await asyncio.sleep(0)
        with pytest.raises(TaskLogUnavailable):
            await writer.submit_short(keeps("late"))
        await closing


async def test_submit_short_retries_on_the_thread_if_locked(tmp_path: Path, writer: TaskLogWriter) -> None:
    """A failed statement rolls the transaction back, and another process starts to write at that moment."""
    other = sqlite3.connect(tmp_path / "w.db", isolation_level=None, check_same_thread=False)

    def fails_beside_another(connection: sqlite3.Connection) -> None:
        if connection.in_transaction and threading.current_thread() is threading.main_thread():
            connection.rollback()
            other.execute("BEGIN IMMEDIATE")
            threading.Timer(0.2, other.rollback).start()
        raise RuntimeError("inside")

    async with within("the writer carries out the work"):
        await writer.submit(keeps("before"))
        answers = await asyncio.gather(
            writer.submit_short(keeps("a")), writer.submit_short(fails_beside_another), return_exceptions=True
        )
        assert (answers[0], type(answers[1])) == (1, RuntimeError)
        assert await writer.submit(kept) == ["a", "before"]
    other.close()


def test_submit_continues_on_a_second_event_loop(tmp_path: Path) -> None:
    writer = TaskLogWriter(opened(tmp_path / "w.db"))
    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def leaves() -> None:
        await writer.submit(keeps("opened"))
        writer.post(keeps("first"))
        await asyncio.sleep(0)

    first.run_until_complete(leaves())
    first.close()

    async def waits() -> None:
        async with within("the writer carries out the work"):
            await writer.submit_short(keeps("second"))
            assert await writer.submit(kept) == ["first", "opened", "second"]
            await writer.aclose()

    second.run_until_complete(waits())
    second.close()
