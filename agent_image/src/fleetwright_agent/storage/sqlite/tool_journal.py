"""The journal of tool calls in the database of conversations.

The model may see the result of a call some tens of milliseconds before the result is on disk.
"""

import asyncio
import json
import sqlite3
from typing import Any

from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall


class SqliteToolJournal:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, thread: str, call: str, state: CallState, body: Any = None) -> None:
        row = (thread, call, state.value, json.dumps(body))
        await self._database.run(lambda db: _put(db, row), after=thread)

    def done(self, thread: str, call: str, body: Any) -> "asyncio.Future[None]":
        """Queue a result, and return a future that resolves after the commit.

        Until then, the outcome of the call counts as unknown.
        """
        row = (thread, call, CallState.DONE.value, json.dumps(body))
        return self._database.put(lambda db: _put(db, row), of=thread)

    async def settled(self, thread: str) -> None:
        """Wait until all writes of the thread are on disk."""
        await self._database.settled(thread)

    async def begin(self, thread: str, call: str, begun: StartedCall) -> None:
        await self.put(thread, call, CallState.BEGUN, {"tool": begun.tool, "arguments": dict(begun.arguments)})

    async def get(self, thread: str, call: str) -> JournalEntry | None:
        query = "SELECT state, body FROM calls WHERE thread=? AND call=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, call)).fetchone(), of=thread)
        return None if found is None else JournalEntry(CallState(found[0]), json.loads(found[1]))

    async def settle(self, thread: str, call: str, body: Any) -> None:
        """Store the result of the sub-agent with this thread, and delete its calls that started and never returned."""
        row = (thread, call, CallState.DONE.value, json.dumps(body))
        await self._database.run(lambda db: _settle(db, row))

    async def begun(self, thread: str, *, below: str) -> list[StartedCall]:
        """Return the calls without a result, in `thread` and in the threads whose names equal or extend `below`."""
        query = f"SELECT body FROM calls WHERE (thread = :thread OR {threads.BELOW}) AND state = :state ORDER BY body"  # noqa: S608 - interpolates only constants
        values = {"thread": thread, "state": CallState.BEGUN.value, **threads.below(below)}
        rows = await self._database.read(lambda db: db.execute(query, values).fetchall())
        return [_begun(json.loads(body)) for (body,) in rows]

    def forget(self, thread: str) -> None:
        """Delete the calls of the previous turn when a new turn begins."""
        self._database.put(lambda db: _forget(db, thread), of=thread)


def _begun(body: Any) -> StartedCall:
    # An older version stored only the tool's name.
    return StartedCall(body, {}) if isinstance(body, str) else StartedCall(body["tool"], body["arguments"])


def _put(db: sqlite3.Connection, row: tuple[str, str, str, str]) -> None:
    db.execute("INSERT OR REPLACE INTO calls (thread, call, state, body) VALUES (?,?,?,?)", row)


def _settle(db: sqlite3.Connection, row: tuple[str, str, str, str]) -> None:
    db.execute("DELETE FROM calls WHERE thread=? AND state=?", (row[0], CallState.BEGUN.value))
    _put(db, row)


def _forget(db: sqlite3.Connection, thread: str) -> None:
    db.execute("DELETE FROM calls WHERE thread=?", (thread,))
