"""The views of conversations in the database of conversations. A view is one row.

When the retention time of an archived message ends, its text is deleted, and its position stays.
"""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.checkpoints import message_of
from fleetwright_agent.storage.sqlite.conversations.failing_compactions import count_failing_compactions
from fleetwright_agent.storage.sqlite.engine.database import Database


class SqliteViewStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called after rows were deleted or changed, so that caches can be cleared."""
        self._database.watch(forget)

    async def get(self, thread: str) -> Mapping[str, Any] | None:
        query = "SELECT body FROM views WHERE thread=?"
        # No pending write can exist: every caller that writes a view waits for its commit.
        row = await self._database.look(lambda db: db.execute(query, (thread,)).fetchone())
        body: Mapping[str, Any] | None = json.loads(row[0]) if row else None
        return body

    async def put(self, thread: str, body: Mapping[str, Any], *, at: float, cut: str | None) -> None:
        """Store the view.

        Args:
            cut: Id of the last message whose retention time in the archive begins at `at`, if any.
        """
        text = json.dumps(body)

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO views (thread, body) VALUES (?,?)", (thread, text))
            if cut:
                db.execute("INSERT OR REPLACE INTO archived (thread, message, at) VALUES (?,?,?)", (thread, cut, at))

        await self._database.run(write)

    async def failing(self, *, at_least: int) -> int:
        """Return how many conversations have had that many failed compactions since the last success."""
        return await count_failing_compactions(self._database, at_least=at_least)

    async def archived(self, thread: str, *, cut: str, pruned: Collection[str]) -> Sequence[AnyMessage]:
        """Return the messages up to the one with the id `cut`, and those whose ids are in `pruned`."""

        def read(db: sqlite3.Connection) -> list[tuple[str, str, bytes]]:
            query = "SELECT position FROM messages WHERE thread=? AND id=?"
            last = (db.execute(query, (thread, cut)).fetchone() or (-1,))[0]
            query = "SELECT position, id, kind, body FROM messages WHERE thread=? ORDER BY position"
            rows = db.execute(query, (thread,))
            return [(name, kind, body) for at, name, kind, body in rows if at <= last or name in pruned]

        return [message_of(self._serde, *row) for row in await self._database.run(read)]
