"""The grants of conversations in the database of conversations."""

import sqlite3
from collections.abc import Callable, Collection

from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.grants import StoredGrant
from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database


class SqliteGrantStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    async def put(self, owner: str, context_id: str, tool: str, keys: Collection[str]) -> None:
        thread, at = conversation(owner, context_id), self._now()
        rows = [(thread, tool, key, at) for key in keys]
        await self._database.run(lambda db: _put(db, rows), after=thread)

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        thread = conversation(owner, context_id)
        query = "SELECT key FROM grants WHERE thread=? AND tool=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, tool)).fetchall(), of=thread)
        return frozenset(key for (key,) in found)

    async def of(self, owner: str, context_id: str = "") -> list[StoredGrant]:
        values = threads.below(conversation(owner, context_id) if context_id else owner)
        query = f"SELECT thread, tool, key, at FROM grants WHERE {threads.BELOW} ORDER BY thread, tool, key"  # noqa: S608 - interpolates only constants
        rows = await self._database.run(lambda db: db.execute(query, values).fetchall())
        found = ((thread.split("\n"), tool, key, at) for thread, tool, key, at in rows)
        # Skip the separate threads of tasks: they have copies of the grants of their conversations.
        return [StoredGrant(parts[1], tool, key, at) for parts, tool, key, at in found if len(parts) == 2]


def _put(db: sqlite3.Connection, rows: list[tuple[str, str, str, float]]) -> None:
    db.executemany("INSERT OR REPLACE INTO grants (thread, tool, key, at) VALUES (?,?,?,?)", rows)
