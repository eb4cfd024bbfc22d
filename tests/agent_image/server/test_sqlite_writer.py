"""The thread that writes: what one piece of work does wrong is nobody else's failure, and none ends the thread."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fleetwright_agent.server.log import LogUnusable
from fleetwright_agent.server.sqlite_writer import Writer

Work = Callable[[sqlite3.Connection], Any]


@pytest.fixture
async def writer(tmp_path: Path) -> AsyncIterator[Writer]:
    connection = sqlite3.connect(tmp_path / "w.db", isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE kept (what TEXT UNIQUE)")
    made = Writer(connection)
    yield made
    await made.aclose()


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
    ("broken", "told"),
    [
        pytest.param(keeps(2**70), OverflowError, id="it cannot be bound"),
        pytest.param(breaks(RuntimeError("inside"), first=keeps("half")), RuntimeError, id="it breaks in its middle"),
        pytest.param(breaks(sqlite3.OperationalError("disk"), first=keeps("half")), LogUnusable, id="the file refuses"),
    ],
)
async def test_work_that_fails_is_undone_alone_and_the_next_is_written(
    writer: Writer, broken: Work, told: type[Exception]
) -> None:
    async with asyncio.timeout(10):
        answers = await asyncio.gather(
            writer.submit(keeps("a")), writer.submit(broken), writer.submit(keeps("b")), return_exceptions=True
        )
        assert (answers[0], type(answers[1]).__mro__.count(told), answers[2]) == (1, 1, 1)
        assert await writer.submit(kept) == ["a", "b"]
    assert writer.problem is None


async def test_where_sqlite_has_undone_the_batch_all_of_it_is_told_to_have_failed(writer: Writer) -> None:
    def undone(connection: sqlite3.Connection) -> None:
        connection.rollback()
        raise sqlite3.OperationalError("disk I/O error")

    async with asyncio.timeout(10):
        await writer.submit(keeps("before"))
        answers = await asyncio.gather(writer.submit(undone), return_exceptions=True)
        assert isinstance(answers[0], LogUnusable)
        assert writer.problem == "the task log cannot be written: disk I/O error"
        assert await writer.submit(kept) == ["before"]
    assert writer.problem is None


async def test_what_nobody_waits_for_and_breaks_is_logged(writer: Writer, caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(10):
        writer.post(breaks(RuntimeError("inside"), first=keeps("half")))
        assert await writer.submit(kept) == []
    assert "nobody waits for" in caplog.text


# The thread ends by an exception on purpose.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_writer_that_is_gone_is_a_problem_and_keeps_nobody_waiting(writer: Writer) -> None:
    writer.post(breaks(SystemExit(), first=keeps("half")))
    async with asyncio.timeout(10):
        while writer.problem is None:  # noqa: ASYNC110 - a thread that ends tells nobody
            await asyncio.sleep(0.01)
        assert "restart the agent" in writer.problem
        with pytest.raises(LogUnusable):
            await writer.submit(keeps("late"))
