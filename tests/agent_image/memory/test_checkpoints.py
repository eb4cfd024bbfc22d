"""The checkpoint saver: it caches decoded checkpoints, and validates the cache against the disk."""

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.sqlite.conversations.checkpoints import SqliteConversationSaver
from fleetwright_agent.storage.sqlite.conversations.message_cache import CachedHistory, MessageCache
from fleetwright_agent.storage.sqlite.conversations.schema import FILE, SCHEMA
from fleetwright_agent.storage.sqlite.conversations.store import SqliteConversationStore
from fleetwright_agent.storage.sqlite.conversations.views import SqliteViewStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.turn.compaction.view import CompactionState, View
from fleetwright_agent.turn.views import Views

T = TypeVar("T")
THREAD = conversation("client:a", "ctx")
OTHER = conversation("client:a", "other")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / FILE, SCHEMA)
    yield opened
    await opened.aclose()


@pytest.fixture
def saver(database: Database) -> SqliteConversationSaver:
    return SqliteConversationSaver(database)


def said(*names: str) -> list[AnyMessage]:
    return [
        HumanMessage(f"asked {name}", id=name) if number % 2 == 0 else AIMessage(f"told {name}", id=name)
        for number, name in enumerate(names)
    ]


def place(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def put(
    saver: SqliteConversationSaver, history: Sequence[AnyMessage], *, thread: str = THREAD, step: int = 1
) -> None:
    values = {"messages": list(history), "task": "t"}
    checkpoint: Any = {"v": 1, "id": f"{step:05}", "ts": "2026-01-01T00:00:00+00:00", "channel_values": values}
    checkpoint |= {"channel_versions": {}, "versions_seen": {}}
    await saver.aput(place(thread), checkpoint, {}, {"messages": step})


async def read(saver: SqliteConversationSaver, thread: str = THREAD) -> list[AnyMessage]:
    found = await saver.aget_tuple(place(thread))
    return found.checkpoint["channel_values"].get("messages", []) if found else []


async def _extended(_: Database, saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "2", "3", "4"), step=2)


async def _changed_in_its_middle(_: Database, saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "x", "3"), step=2)


async def _cut_short(_: Database, saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "2"), step=2)


async def _erased(database: Database, _: SqliteConversationSaver) -> None:
    await SqliteConversationStore(database).forget([("client:a", "ctx")])


async def _erased_and_begun_anew(database: Database, saver: SqliteConversationSaver) -> None:
    await _erased(database, saver)
    await put(saver, said("7", "8"), step=2)


async def _taken_over_by_another(_: Database, saver: SqliteConversationSaver) -> None:
    await put(saver, said("8", "9"), thread=OTHER)
    await saver.acopy_thread(OTHER, THREAD)


async def _expired(database: Database, _: SqliteConversationSaver) -> None:
    await Views(SqliteViewStore(database)).put(
        THREAD, CompactionState(View(cut="2", newest="3")), at=10.0, archives=True
    )
    await SqliteConversationStore(database).expire_archive(20.0)


@pytest.mark.parametrize(
    ("happens", "left"),
    [
        pytest.param(_extended, ["asked 1", "told 2", "asked 3", "told 4"], id="it goes on"),
        pytest.param(_changed_in_its_middle, ["asked 1", "told x", "asked 3"], id="a message in its middle is another"),
        pytest.param(_cut_short, ["asked 1", "told 2"], id="its end is taken away"),
        pytest.param(_erased, [], id="it is erased"),
        pytest.param(_erased_and_begun_anew, ["asked 7", "told 8"], id="it is erased and begun anew"),
        pytest.param(_taken_over_by_another, ["asked 8", "told 9"], id="another is copied over it"),
        pytest.param(_expired, ["", "", "asked 3"], id="the time of its archive is over"),
    ],
)
async def test_checkpoint_cache_equals_the_stored_history(
    database: Database,
    saver: SqliteConversationSaver,
    happens: Callable[[Database, SqliteConversationSaver], Awaitable[None]],
    left: list[str],
) -> None:
    await put(saver, said("1", "2", "3"))
    assert [message.text for message in await read(saver)] == ["asked 1", "told 2", "asked 3"]
    await happens(database, saver)
    for reader in (saver, SqliteConversationSaver(database)):
        assert [str(message.text) for message in await read(reader)] == left


async def test_checkpoint_cache_decodes_a_message_once(saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "2"))
    first = await read(saver)
    await put(saver, [*first, *said("3", "4")], step=2)
    second = await read(saver)
    assert len(second) == 4
    assert all(before is now for before, now in zip(first, second, strict=False))


async def test_checkpoint_cache_serves_messages_of_its_own_writes(saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "2"))
    history = [*await read(saver), *said("3", "4")]
    await put(saver, history, step=2)
    await saver.settled(THREAD)
    assert all(now is before for before, now in zip(history, await read(saver), strict=True))


async def test_checkpoint_cache_drops_rows_removed_during_a_turn(
    database: Database, saver: SqliteConversationSaver
) -> None:
    """Rows that were deleted while a turn held them are not served from the cache after the turn writes."""
    await put(saver, said("1", "2"))
    history = [*await read(saver), *said("3", "4")]
    database.taken_out()
    await put(saver, history, step=2)
    await saver.settled(THREAD)
    assert not any(now is before for before, now in zip(history, await read(saver), strict=True))


class _Counting(Database):
    looks = 0

    async def look(self, work: Callable[[sqlite3.Connection], T], *, of: str = "") -> T:
        self.looks += 1
        return await super().look(work, of=of)


async def test_checkpoint_cache_skips_the_disk_for_repeated_reads(tmp_path: Path) -> None:
    database = _Counting(tmp_path / FILE, SCHEMA)
    saver = SqliteConversationSaver(database)
    await put(saver, said("1", "2"))
    await put(saver, said("8"), thread=OTHER)
    looks = []
    for thread in (THREAD, THREAD, THREAD, OTHER, THREAD, OTHER):
        await read(saver, thread)
        looks.append(database.looks)
    await database.aclose()
    assert looks == [1, 1, 2, 3, 4, 5], "the cache serves one read of one conversation"


async def test_checkpoint_cache_is_empty_after_a_scrub(database: Database, saver: SqliteConversationSaver) -> None:
    await put(saver, said("1", "2"))
    first = await read(saver)
    await database.scrub()
    assert (await read(saver))[0] is not first[0]


async def test_checkpoint_write_error_is_raised_when_settled(
    database: Database, saver: SqliteConversationSaver
) -> None:
    await put(saver, said("1"))
    await database.run(lambda db: db.execute("DROP TABLE messages"))
    await put(saver, said("1", "2"), step=2)
    with pytest.raises(MemoryUnusable):
        await saver.settled(THREAD)


def known(size: int) -> CachedHistory:
    return CachedHistory(tuple(said("1", "2")), size)


def test_message_cache_evicts_the_least_recently_used() -> None:
    histories = MessageCache(most=100, most_of_one=60)
    for name, size in (("long", 61), ("a", 50), ("b", 30), ("a", 55), ("c", 30)):
        histories.keep(name, "", known(size))
    assert [name for name in ("long", "a", "b", "c") if histories.get(name, "").messages] == ["a", "c"]
