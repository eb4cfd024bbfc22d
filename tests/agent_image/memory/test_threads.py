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


async def test_a_task_is_known_by_what_its_sub_agents_left_alone(database):
    await stored(database, MAIN, TASK.delegated("1"), TASK.delegated("2"), OTHER.thread)
    assert set(await SqliteConversationStore(database).side_threads()) == {TASK, OTHER}


async def test_it_is_forgotten_with_its_sub_agents_and_the_conversation_stays(database):
    names = [MAIN, TASK.thread, TASK.delegated("1"), OTHER.thread, OTHER.delegated("1")]
    await stored(database, *names)
    await SqliteConversationStore(database).forget_side_thread(TASK)
    assert await left(database) == {MAIN, OTHER.thread, OTHER.delegated("1")}


async def test_a_name_of_a_call_that_holds_a_line_break_is_still_one_part():
    assert TASK.delegated("a\nb").count("\n") == 3
    assert TASK.delegated("a\nb") != TASK.delegated("a")


async def test_calls_that_sub_agents_had_begun_are_among_those_of_the_task(database):
    journal = SqliteToolJournal(database)
    await journal.begin(MAIN, "1", StartedCall("pay", {}))
    await journal.begin(TASK.delegated("1"), "1", StartedCall("book", {}))
    await journal.begin(OTHER.delegated("1"), "1", StartedCall("cook", {}))
    assert [call.tool for call in await journal.begun(MAIN, below=TASK.thread)] == ["book", "pay"]


async def test_what_a_sub_agent_came_to_settles_what_it_had_begun(database):
    journal, thread = SqliteToolJournal(database), TASK.delegated("1")
    await journal.put(thread, "0", CallState.DONE, {"text": "x"})
    await journal.begin(thread, "1", StartedCall("book", {}))
    await journal.settle(thread, "outcome", {"word": "timeout"})
    assert await journal.begun(MAIN, below=TASK.thread) == []
    assert await journal.get(thread, "outcome") == JournalEntry(CallState.DONE, {"word": "timeout"})
    assert await journal.get(thread, "0") == JournalEntry(CallState.DONE, {"text": "x"})
