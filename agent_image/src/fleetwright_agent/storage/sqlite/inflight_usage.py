"""The usage of running turns in the database of conversations."""

import json
import sqlite3
from typing import Any

from fleetwright_agent.storage.sqlite.engine.database import Database

_NEXT = (
    "INSERT INTO spent (owner, task, position, body)"
    " SELECT :owner, :task, coalesce(max(position), 0) + 1, :body FROM spent WHERE owner = :owner AND task = :task"
)


class SqliteInflightUsage:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, owner: str, task_id: str, body: Any) -> None:
        await self._database.run(lambda db: add(db, owner, task_id, body))

    def put(self, owner: str, task_id: str, body: Any) -> None:
        """Queue a line of usage without waiting for the write. `settled` waits until it is on disk."""
        self._database.put(lambda db: add(db, owner, task_id, body), of=name(owner, task_id))

    async def settled(self, owner: str, task_id: str) -> None:
        """Wait until the queued costs of that turn are on disk."""
        await self._database.settled(name(owner, task_id), at_once=False)

    def begin(self, owner: str, task_id: str, *, before: float) -> None:
        """Start a new turn of the task; delete its earlier costs and those of turns that ended before `before`."""

        def write(db: sqlite3.Connection) -> None:
            _forget(db, owner, task_id)
            db.execute("DELETE FROM spent WHERE ended < ?", (before,))

        self._database.put(write, of=name(owner, task_id))

    async def of(self, owner: str, task_id: str) -> list[Any]:
        query = "SELECT body FROM spent WHERE owner=? AND task=? ORDER BY position"
        rows = await self._database.read(lambda db: db.execute(query, (owner, task_id)).fetchall())
        return [json.loads(body) for (body,) in rows]

    async def tasks(self) -> list[tuple[str, str]]:
        """Return the owner and id of every task with stored costs."""
        return await self._database.run(lambda db: db.execute("SELECT DISTINCT owner, task FROM spent").fetchall())

    def end(self, owner: str, task_id: str, *, at: float) -> None:
        """Mark the turn as ended. If this write fails, maintenance deletes the costs of the turn."""
        self._database.put(lambda db: _end(db, owner, task_id, at))

    async def forget(self, owner: str, task_id: str) -> None:
        await self._database.run(lambda db: _forget(db, owner, task_id))


def name(owner: str, task_id: str) -> str:
    """Return the name under which a turn's costs are queued."""
    return f"cost\n{owner}\n{task_id}"


def add(db: sqlite3.Connection, owner: str, task_id: str, body: Any) -> None:
    db.execute(_NEXT, {"owner": owner, "task": task_id, "body": json.dumps(body)})


def _end(db: sqlite3.Connection, owner: str, task_id: str, at: float) -> None:
    db.execute("UPDATE spent SET ended=? WHERE owner=? AND task=?", (at, owner, task_id))


def _forget(db: sqlite3.Connection, owner: str, task_id: str) -> None:
    db.execute("DELETE FROM spent WHERE owner=? AND task=?", (owner, task_id))
