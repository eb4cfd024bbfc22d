"""What people have permitted tools for the rest of a conversation. Grants end with their conversation."""

import sqlite3
from collections.abc import Callable, Collection

from fleetwright_agent.storage.sqlite.conversations.threads import conversation
from fleetwright_agent.storage.sqlite.engine.database import Database


class GrantStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    async def put(self, owner: str, context_id: str, tool: str, keys: Collection[str]) -> None:
        """Store grants; they are on disk when this returns."""
        thread, at = conversation(owner, context_id), self._now()
        rows = [(thread, tool, key, at) for key in keys]
        await self._database.run(lambda db: _put(db, rows), after=thread)

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        """Return the keys of all grants for this tool in the conversation."""
        thread = conversation(owner, context_id)
        query = "SELECT key FROM grants WHERE thread=? AND tool=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, tool)).fetchall(), of=thread)
        return frozenset(key for (key,) in found)


def _put(db: sqlite3.Connection, rows: list[tuple[str, str, str, float]]) -> None:
    db.executemany("INSERT OR REPLACE INTO grants (thread, tool, key, at) VALUES (?,?,?,?)", rows)
