"""The conversation database: it commits queued writes in groups, isolates failed writes, and keeps confirmed writes."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event

import pytest
from tests.support.agent.kept_rows import SCHEMA, Work, insert_row
from tests.support.machine import ceiling
from tests.support.waiting import within

from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.engine.sync_read import SyncReader


class Counting(Database):
    """A database that counts its commits."""

    commits = 0

    def _open(self) -> sqlite3.Connection:
        connection = super()._open()
        connection.set_trace_callback(self._trace)
        return connection

    def _trace(self, statement: str) -> None:
        self.commits += statement == "COMMIT"


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Counting]:
    opened = Counting(tmp_path / "f.db", SCHEMA)
    yield opened
    await opened.aclose()


def kept(db: sqlite3.Connection) -> list[str]:
    return [what for (what,) in db.execute("SELECT what FROM kept ORDER BY n")]


def breaks(error: Exception) -> Work:
    def work(db: sqlite3.Connection) -> None:
        insert_row("half")(db)
        raise error

    return work


class Held:
    """Return work that blocks the writer thread, so that later writes queue."""

    def __init__(self) -> None:
        self._go = Event()

    def __call__(self, _: sqlite3.Connection) -> None:
        self._go.wait(ceiling())

    def let_go(self) -> None:
        self._go.set()


async def test_run_groups_writes_into_one_commit_in_order(database: Counting) -> None:
    held = Held()
    first = asyncio.ensure_future(database.run(held))
    await asyncio.sleep(0)
    gathered = [asyncio.ensure_future(database.run(insert_row(f"{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    held.let_go()
    await asyncio.gather(first, *gathered)
    assert database.commits <= 2
    assert await database.run(kept) == [f"{number}" for number in range(20)]


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        pytest.param(breaks(RuntimeError("inside")), RuntimeError, id="it breaks in its middle"),
        pytest.param(breaks(sqlite3.OperationalError("disk")), MemoryUnusable, id="the file refuses"),
        pytest.param(insert_row("a"), MemoryUnusable, id="the table refuses"),
    ],
)
async def test_run_fails_alone(database: Counting, broken: Work, told: type[Exception]) -> None:
    held = Held()
    answers = [asyncio.ensure_future(database.run(work)) for work in (held, insert_row("a"), broken, insert_row("b"))]
    await asyncio.sleep(0)
    held.let_go()
    found = await asyncio.gather(*answers, return_exceptions=True)
    assert [type(each) for each in found] == [type(None), type(None), told, type(None)]
    assert await database.run(kept) == ["a", "b"]


async def test_settled_reports_a_failure_once(database: Counting) -> None:
    database.put(insert_row("a"), of="one")
    database.put(insert_row("a"), of="one")
    database.put(insert_row("b"), of="two")
    await database.settled("two")
    with pytest.raises(MemoryUnusable):
        await database.settled("one")
    await database.settled("one")


async def test_run_after_a_failed_write_fails(database: Counting) -> None:
    database.put(breaks(sqlite3.OperationalError("disk")), of="one")
    with pytest.raises(MemoryUnusable):
        await database.run(insert_row("later"), after="one")


async def test_look_does_not_wait_for_writes(database: Counting) -> None:
    await database.run(insert_row("one"))
    held = Held()
    writing = asyncio.ensure_future(database.run(held))
    await asyncio.sleep(0)
    async with within("a reader does not wait for the writer"):
        assert await database.look(kept) == ["one"]
    held.let_go()
    await writing


async def test_look_sees_writes_under_its_name(database: Counting) -> None:
    await database.run(insert_row("one"))
    database.put(insert_row("two"), of="this")
    assert await database.look(kept, of="that") == ["one"]
    assert await database.look(kept, of="this") == ["one", "two"]


async def test_look_reports_errors_like_read(database: Counting) -> None:
    await database.run(insert_row("one"))
    with pytest.raises(MemoryUnusable, match="no such table"):
        await database.look(lambda db: db.execute("SELECT * FROM gone"))


def test_sync_reader_cannot_write(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "f.db") as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.executescript(SCHEMA[0])
    glance = SyncReader(tmp_path / "f.db")
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        glance(insert_row("one"))
    glance.close()
    db.close()


async def test_settled_reports_a_failure_to_all_waiters(database: Counting) -> None:
    await database.run(insert_row("one"))
    database.put(insert_row("one"), of="this")
    answers = await asyncio.gather(database.settled("this"), database.settled("this"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [MemoryUnusable, MemoryUnusable]
    await database.settled("this")


async def test_put_without_a_name_fails_alone(database: Counting) -> None:
    await database.run(insert_row("one"))
    database.put(insert_row("one"))
    await database.run(insert_row("two"))
    assert await database.read(kept) == ["one", "two"]


async def test_settled_cancellation_does_not_cancel_writes(database: Counting) -> None:
    held = Held()
    database.put(held, of="one")
    database.put(insert_row("a"), of="one")
    waiting = asyncio.ensure_future(database.settled("one"))
    await asyncio.sleep(0)
    waiting.cancel()
    held.let_go()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await database.settled("one")
    assert await database.run(kept) == ["a"]


async def test_scrub_and_shrink_work_between_writes(database: Counting) -> None:
    database.put(insert_row("a"), of="one")
    await asyncio.gather(database.scrub(), database.shrink(), database.run(insert_row("b")))
    assert await database.run(kept) == ["a", "b"]
    assert database.problem is None


async def test_aclose_commits_queued_writes_and_rejects_later(tmp_path: Path) -> None:
    database = Database(tmp_path / "f.db", SCHEMA)
    for number in range(50):
        database.put(insert_row(f"{number}"), of="one")
    await database.aclose()
    with pytest.raises(MemoryUnusable):
        database.put(insert_row("late"), of="one")
    db = sqlite3.connect(tmp_path / "f.db")
    assert len(kept(db)) == 50
    db.close()


_KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from fleetwright_agent.storage.sqlite.engine.database import Database
from tests.support.agent.kept_rows import SCHEMA, insert_row

async def main():
    database = Database(Path(sys.argv[1]), SCHEMA)
    for number in range(1000):
        database.put(insert_row(f"put {number}"), of="one")
        if number % 7 == 0:
            await database.run(insert_row(f"awaited {number}"), after="one")
            print(number, flush=True)
            if number == 350:
                os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.process
def test_kill_keeps_awaited_writes_and_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "f.db"
    process = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
        capture_output=True,
        text=True,
        timeout=ceiling(),
        check=False,
    )
    assert (process.returncode, process.stderr) == (-signal.SIGKILL, "")
    told = int(process.stdout.split()[-1])
    db = sqlite3.connect(path)
    found = kept(db)
    db.close()
    wanted = []
    for number in range(told + 1):
        wanted += [f"put {number}", *([f"awaited {number}"] if number % 7 == 0 else [])]
    assert found[: len(wanted)] == wanted
