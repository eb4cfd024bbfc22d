"""The grants of conversations: a person permits a tool something for the rest of a conversation. They end with it."""

import sqlite3
from collections.abc import Callable, Collection
from dataclasses import dataclass

from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database


@dataclass(frozen=True, slots=True)
class StoredGrant:
    context_id: str
    tool: str
    grant: str
    """The key of the grant."""
    at: float


class GrantStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    async def put(self, owner: str, context_id: str, tool: str, keys: Collection[str]) -> None:
        """Store grants; they are on disk when this returns."""
        thread, at = threads.conversation(owner, context_id), self._now()
        rows = [(thread, tool, key, at) for key in keys]
        await self._database.run(lambda db: _put(db, rows), after=thread)

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        """Return the keys of all grants for this tool in the conversation."""
        thread = threads.conversation(owner, context_id)
        query = "SELECT key FROM grants WHERE thread=? AND tool=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, tool)).fetchall(), of=thread)
        return frozenset(key for (key,) in found)


async def grants_of(database: Database, owner: str, context_id: str = "") -> list[StoredGrant]:
    """Return the grants that an owner gave, in one conversation or in all of them."""
    values = threads.below(threads.conversation(owner, context_id) if context_id else owner)
    query = f"SELECT thread, tool, key, at FROM grants WHERE {threads.BELOW} ORDER BY thread, tool, key"  # noqa: S608 - interpolates only constants
    rows = await database.run(lambda db: db.execute(query, values).fetchall())
    found = ((thread.split("\n"), tool, key, at) for thread, tool, key, at in rows)
    # The thread of a task that was set aside has copies of the grants of its conversation.
    return [StoredGrant(parts[1], tool, key, at) for parts, tool, key, at in found if len(parts) == 2]


def _put(db: sqlite3.Connection, rows: list[tuple[str, str, str, float]]) -> None:
    db.executemany("INSERT OR REPLACE INTO grants (thread, tool, key, at) VALUES (?,?,?,?)", rows)
