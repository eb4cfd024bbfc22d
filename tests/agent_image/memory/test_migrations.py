"""Migrations: opening a file upgrades an older schema, and refuses a newer schema without changes."""

import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest

from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.open_questions import PeerCall
from fleetwright_agent.storage.sqlite.conversations.checkpoints import SqliteConversationSaver
from fleetwright_agent.storage.sqlite.conversations.schema import FILE, SCHEMA
from fleetwright_agent.storage.sqlite.conversations.sessions import SqliteSessionStore
from fleetwright_agent.storage.sqlite.conversations.store import SqliteConversationStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.facts import SCHEMA as FACTS
from fleetwright_agent.storage.sqlite.learned_skills import SCHEMA as SKILLS
from fleetwright_agent.storage.sqlite.open_questions import SqliteDelegatedTasks
from fleetwright_agent.storage.sqlite.peer_calls import SqlitePeerCalls
from fleetwright_agent.storage.sqlite.usage_store import SqliteUsageStore

BEFORE = """
CREATE TABLE checkpoints (
  thread TEXT NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL,
  kind TEXT NOT NULL, body BLOB NOT NULL, metadata_kind TEXT NOT NULL, metadata BLOB NOT NULL,
  PRIMARY KEY (thread, ns)) WITHOUT ROWID;
CREATE TABLE messages (
  thread TEXT NOT NULL, ns TEXT NOT NULL, position INTEGER NOT NULL, id TEXT NOT NULL,
  kind TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (thread, ns, position)) WITHOUT ROWID;
CREATE TABLE views (thread TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID;
"""
"""The schema of the previous release, which had no version number."""
THREAD = conversation("client:a", "ctx")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    path = tmp_path / FILE
    saver = SqliteConversationSaver(Database(path, SCHEMA))
    checkpoint = {"v": 1, "id": "1", "ts": "2026-01-01T00:00:00+00:00", "channel_values": {"task": "t"}}
    kind, body = saver.serde.dumps_typed(checkpoint | {"channel_versions": {}, "versions_seen": {}})
    metadata = saver.serde.dumps_typed({})
    db = sqlite3.connect(path)
    db.executescript(BEFORE)
    db.execute("INSERT INTO checkpoints VALUES (?,?,?,?,?,?,?)", (THREAD, "", "1", kind, body, *metadata))
    db.commit()
    db.close()
    return path


async def test_migration_keeps_a_conversation_and_sets_its_last_use(before):
    """A conversation of the previous schema continues, and counts as used at the time of the migration."""
    database = Database(before, SCHEMA)
    (found,) = await SqliteConversationStore(database).last_uses()
    assert found.place == ("client:a", "ctx")
    assert found.used == pytest.approx(before.stat().st_mtime, abs=600)
    stored = await SqliteConversationSaver(database).aget_tuple({"configurable": {"thread_id": THREAD}})
    assert stored is not None
    assert stored.checkpoint["channel_values"]["task"] == "t"
    await database.aclose()


async def test_migration_runs_once(before):
    for _ in range(2):
        database = Database(before, SCHEMA)
        await database.check()
        assert (database.problem, await database.run(_version)) == (None, len(SCHEMA))
        await database.aclose()


async def test_migration_from_the_previous_version_adds_sessions(tmp_path):
    await _made(tmp_path / FILE, SCHEMA[:-1])
    database = Database(tmp_path / FILE, SCHEMA)
    await Sessions(SqliteSessionStore(database), redact=str).put("client:a", "ctx", asked="Who?", answered="Ada.")
    assert "Ada." in await Sessions(SqliteSessionStore(database), redact=str).prior("client:a", "new")
    await database.aclose()


async def test_migration_sums_the_usage_of_earlier_processes(tmp_path):
    path = tmp_path / FILE
    await _made(path, SCHEMA[: SCHEMA.index(next(step for step in SCHEMA if "CREATE TABLE totals" in step))])
    db = sqlite3.connect(path)
    rows = [
        (2, 7, "m", "answer", "b"),
        (1, 9, "m", "answer", "a"),
        (2, 8, "m", "answer", "a"),
        (2, 8, "m", "summary", "a"),
    ]
    db.executemany("INSERT INTO ledger VALUES (?,?,?,?,?,1,10,2,3,1,0,5000000000)", rows)
    db.commit()
    db.close()
    database = Database(path, SCHEMA)
    found = await SqliteUsageStore(database, now=lambda: 0.0).totals()
    assert [(each.caller, each.purpose, each.sum.calls, each.sum.usd) for each in found] == [
        ("a", "answer", 2, Decimal("0.01")),
        ("b", "answer", 1, Decimal("0.005")),
        ("a", "summary", 1, Decimal("0.005")),
    ]
    await database.aclose()


async def test_migration_from_before_the_calls_of_peers(tmp_path):
    path = tmp_path / FILE
    await _made(path, SCHEMA[: SCHEMA.index(next(step for step in SCHEMA if "CREATE TABLE peer_calls" in step))])
    db = sqlite3.connect(path)
    db.execute("INSERT INTO delegated VALUES ('client:a', 'c', 'n/cook', 'remote')")
    db.commit()
    db.close()
    database = Database(path, SCHEMA)
    calls = SqlitePeerCalls(database)
    assert await calls.of() == []
    call = PeerCall("1", "client:a", "c", "t", "n/cook", "boil", 1.0)
    await calls.begin(call)
    assert await calls.of("client:a") == [call]
    assert len(await SqliteDelegatedTasks(database).of("client:a", "c")) == 1
    await database.aclose()


async def test_migration_enables_auto_vacuum_at_the_first_shrink(before):
    database = Database(before, SCHEMA)
    await database.shrink()
    assert await database.run(lambda db: db.execute("PRAGMA auto_vacuum").fetchone()[0]) == 2
    await database.aclose()


@pytest.mark.parametrize(
    ("schema", "step"),
    [
        pytest.param(SCHEMA, len(SCHEMA), id="conversations"),
        pytest.param(FACTS, len(FACTS), id="knowledge"),
        pytest.param(SKILLS, len(SKILLS), id="learned skills"),
    ],
)
async def test_migration_refuses_a_newer_schema_without_changes(tmp_path, schema, step):
    newer = Database(tmp_path / "f.db", (*schema, "CREATE TABLE later (x TEXT);"))
    await newer.check()
    await newer.aclose()
    database = Database(tmp_path / "f.db", schema)
    with pytest.raises(MemoryUnusable, match=f"schema {step + 1}, this version supports {step}"):
        await database.run(_version)
    db = sqlite3.connect(tmp_path / "f.db")
    assert db.execute("SELECT count(*) FROM later").fetchone() == (0,)
    db.close()
    await database.aclose()


async def test_migration_rolls_back_a_failing_step(tmp_path):
    await _made(tmp_path / "f.db", ("CREATE TABLE first (x TEXT);",))
    broken = Database(tmp_path / "f.db", ("CREATE TABLE first (x TEXT);", "CREATE TABLE second (x TEXT); NO SUCH;"))
    with pytest.raises(MemoryUnusable):
        await broken.run(_version)
    await broken.aclose()
    db = sqlite3.connect(tmp_path / "f.db")
    assert (_version(db), db.execute("SELECT name FROM sqlite_master").fetchall()) == (1, [("first",)])
    db.close()


async def _made(path: Path, schema: tuple[str, ...]) -> None:
    database = Database(path, schema)
    await database.check()
    await database.aclose()


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
