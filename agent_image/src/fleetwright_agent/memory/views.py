"""How much of each conversation is shown, and the archive of the rest.

A view is one row, written in one transaction: whoever is killed leaves the old one or the new one. What a view stands
for stays where it is until the archive's time is over; then its text goes, and its place stays.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence

from langchain_core.messages import AnyMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.memory.checkpoints import message_of
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.failing_compactions import count_failing_compactions
from fleetwright_agent.turn.compaction.view import Standing, dumped, loaded


class Views:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._serde = JsonPlusSerializer(allowed_msgpack_modules=None)

    def watch(self, forget: Callable[[], None]) -> None:
        """Args: `forget` is called when something was taken out that somebody may have read before."""
        self._database.watch(forget)

    async def get(self, thread: str) -> Standing:
        query = "SELECT body FROM views WHERE thread=?"
        # A view is never put and left: whoever writes one waits for it.
        row = await self._database.look(lambda db: db.execute(query, (thread,)).fetchone())
        if row is None:
            return Standing()
        body = json.loads(row[0])
        view = loaded(body["view"]) if body["view"] else None
        return Standing(view, body["failures"], body.get("retryAt", 0))

    async def put(self, thread: str, standing: Standing, *, at: float, archives: bool = False) -> None:
        """`archives` where the view's cut is a new one, which begins the archive's time of what it took."""
        view = dumped(standing.view) if standing.view else None
        body = json.dumps({"view": view, "failures": standing.failures, "retryAt": standing.retry_at})
        cut = standing.view.cut if standing.view and archives else None

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO views (thread, body) VALUES (?,?)", (thread, body))
            if cut:
                db.execute("INSERT OR REPLACE INTO archived (thread, message, at) VALUES (?,?,?)", (thread, cut, at))

        await self._database.run(write)

    async def failing(self, *, at_least: int) -> int:
        """Return how many conversations have had that many failed compactions since the last success."""
        return await count_failing_compactions(self._database, at_least=at_least)

    async def archived(self, thread: str) -> Sequence[AnyMessage]:
        """The messages that the view stands for, and those of which it shows a part."""
        view = (await self.get(thread)).view
        if view is None:
            return ()

        def read(db: sqlite3.Connection) -> list[tuple[str, str, bytes]]:
            query = "SELECT position FROM messages WHERE thread=? AND id=?"
            last = (db.execute(query, (thread, view.cut)).fetchone() or (-1,))[0]
            query = "SELECT position, id, kind, body FROM messages WHERE thread=? ORDER BY position"
            rows = db.execute(query, (thread,))
            return [(name, kind, body) for at, name, kind, body in rows if at <= last or name in view.pruned]

        return [message_of(self._serde, *row) for row in await self._database.run(read)]
