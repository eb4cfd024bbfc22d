"""Stored grants: they belong to one tool in one conversation, and end with it."""

import pytest

from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.grants import SqliteGrantStore


@pytest.fixture
async def database(tmp_path):
    opened = Database(tmp_path / "conversations.db", SCHEMA)
    yield opened
    await opened.aclose()


@pytest.fixture
async def grants(database):
    store = SqliteGrantStore(database, now=lambda: 1.0)
    await store.put("client:a", "c", "rope__cut", ["rope", "ropes"])
    return store


@pytest.mark.parametrize(
    ("owner", "context", "tool", "keys"),
    [
        pytest.param("client:a", "c", "rope__cut", {"rope", "ropes"}, id="the tool in its conversation"),
        pytest.param("client:a", "c", "rope__tie", set(), id="another tool"),
        pytest.param("client:a", "d", "rope__cut", set(), id="another conversation"),
        pytest.param("client:b", "c", "rope__cut", set(), id="another caller"),
    ],
)
async def test_grants_are_keyed_by_tool_and_conversation(grants, owner, context, tool, keys):
    assert await grants.keys(owner, context, tool) == keys


async def test_grants_of_lists_those_of_an_owner(grants):
    await grants.put("client:b", "c", "rope__cut", ["rope"])
    await grants.put("client:a", "d", "rope__tie", ["knot"])
    listed = [(each.context_id, each.tool, each.grant) for each in await grants.of("client:a")]
    assert listed == [("c", "rope__cut", "rope"), ("c", "rope__cut", "ropes"), ("d", "rope__tie", "knot")]
    assert [each.grant for each in await grants.of("client:a", "d")] == ["knot"]


async def test_grants_are_stored_once(grants, database):
    await grants.put("client:a", "c", "rope__cut", ["rope"])
    rows = await database.run(lambda db: db.execute("SELECT count(*) FROM grants").fetchone())
    assert rows == (2,)


@pytest.mark.parametrize(
    "delete",
    [
        pytest.param(lambda db: threads.delete_conversation(db, "client:a", "c"), id="the conversation"),
        pytest.param(lambda db: threads.delete_owner(db, "client:a"), id="all conversations of the caller"),
    ],
)
async def test_grants_are_deleted_with_their_scope(grants, database, delete):
    await database.run(delete)
    assert await grants.keys("client:a", "c", "rope__cut") == set()
