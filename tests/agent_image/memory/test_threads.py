"""Checkpoints of sub-agents: the store finds and deletes them together with their task."""

import pytest

from fleetwright_agent.storage.conversations import SideThread, conversation
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.conversations.store import SqliteConversationStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.tool_journal import SqliteToolJournal
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall

TASK, OTHER = SideThread("client:a", "c", "t"), SideThread("client:a", "c", "t2")
MAIN = conversation("client:a", "c")


@pytest.fixture
async def database(tmp_path):
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


async def stored(database, *names):
    row = "INSERT INTO checkpoints VALUES (?, '', '1', 'x', '', 'x', '', 0)"
    await database.run(lambda db: db.executemany(row, [(name,) for name in names]))


async def left(database):
    rows = await database.run(lambda db: db.execute("SELECT thread FROM checkpoints").fetchall())
    return {name for (name,) in rows}


async def test_side_threads_include_tasks_of_sub_agents(database):
    await stored(database, MAIN, TASK.delegated("1"), TASK.delegated("2"), OTHER.thread)
    assert set(await SqliteConversationStore(database).side_threads()) == {TASK, OTHER}


async def test_forget_side_thread_deletes_its_sub_agents_only(database):
    names = [MAIN, TASK.thread, TASK.delegated("1"), OTHER.thread, OTHER.delegated("1")]
    await stored(database, *names)
    await SqliteConversationStore(database).forget_side_thread(TASK)
    assert await left(database) == {MAIN, OTHER.thread, OTHER.delegated("1")}


async def test_delegated_thread_escapes_line_breaks_in_call_ids():
    assert TASK.delegated("a\nb").count("\n") == 3
    assert TASK.delegated("a\nb") != TASK.delegated("a")


async def test_tool_journal_includes_started_calls_of_sub_agents(database):
    journal = SqliteToolJournal(database)
    await journal.begin(MAIN, "1", StartedCall("pay", {}))
    await journal.begin(TASK.delegated("1"), "1", StartedCall("book", {}))
    await journal.begin(OTHER.delegated("1"), "1", StartedCall("cook", {}))
    assert [call.tool for call in await journal.begun(MAIN, below=TASK.thread)] == ["book", "pay"]


async def test_tool_journal_settles_started_calls_with_their_outcome(database):
    journal, thread = SqliteToolJournal(database), TASK.delegated("1")
    await journal.put(thread, "0", CallState.DONE, {"text": "x"})
    await journal.begin(thread, "1", StartedCall("book", {}))
    await journal.settle(thread, "outcome", {"word": "timeout"})
    assert await journal.begun(MAIN, below=TASK.thread) == []
    assert await journal.get(thread, "outcome") == JournalEntry(CallState.DONE, {"word": "timeout"})
    assert await journal.get(thread, "0") == JournalEntry(CallState.DONE, {"text": "x"})
