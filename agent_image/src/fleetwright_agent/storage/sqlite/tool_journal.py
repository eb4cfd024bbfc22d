"""The journal of tool calls: what makes a call happen at most once, whatever happens to the process.

That a call begins is on disk before it begins, with the message that makes it. Its result is written in its turn, and
is on disk before a caller hears of it; the model may know it some tens of milliseconds before. A call that began and
has no result on disk is never made again. Refuses: keeping more than the turn that is under way.
"""

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database


class CallState(StrEnum):
    WAITING = "waiting"
    """For a person; nothing has happened."""
    BEGUN = "begun"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Entry:
    state: CallState
    body: Any = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A call that has begun."""

    tool: str
    arguments: Mapping[str, Any]


class Journal:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, thread: str, call: str, state: CallState, body: Any = None) -> None:
        row = (thread, call, state.value, json.dumps(body))
        await self._database.run(lambda db: _put(db, row), after=thread)

    def done(self, thread: str, call: str, body: Any) -> "asyncio.Future[None]":
        """What it gives is over when that is on disk: until it is, the call counts as one of which nothing is known."""
        row = (thread, call, CallState.DONE.value, json.dumps(body))
        return self._database.put(lambda db: _put(db, row), of=thread)

    async def settled(self, thread: str) -> None:
        """The conversation is on disk up to here, as it is where a call is written down."""
        await self._database.settled(thread)

    async def begin(self, thread: str, call: str, begun: Begun) -> None:
        await self.put(thread, call, CallState.BEGUN, {"tool": begun.tool, "arguments": dict(begun.arguments)})

    async def get(self, thread: str, call: str) -> Entry | None:
        query = "SELECT state, body FROM calls WHERE thread=? AND call=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, call)).fetchone(), of=thread)
        return None if found is None else Entry(CallState(found[0]), json.loads(found[1]))

    async def settle(self, thread: str, call: str, body: Any) -> None:
        """What a sub-agent has come to. A call that it began and that has no result is never waited for again."""
        row = (thread, call, CallState.DONE.value, json.dumps(body))
        await self._database.run(lambda db: _settle(db, row))

    async def begun(self, thread: str, *, below: str) -> list[Begun]:
        """The calls that began and have no result, in the thread and in those of the sub-agents `below` that one."""
        query = f"SELECT body FROM calls WHERE (thread = :thread OR {threads.BELOW}) AND state = :state ORDER BY body"  # noqa: S608 - names are ours
        values = {"thread": thread, "state": CallState.BEGUN.value, **threads.below(below)}
        rows = await self._database.read(lambda db: db.execute(query, values).fetchall())
        return [_begun(json.loads(body)) for (body,) in rows]

    def forget(self, thread: str) -> None:
        """Another turn begins; what the former one called is over."""
        self._database.put(lambda db: _forget(db, thread), of=thread)


def _begun(body: Any) -> Begun:
    # A version of this before wrote the name alone.
    return Begun(body, {}) if isinstance(body, str) else Begun(body["tool"], body["arguments"])


def _put(db: sqlite3.Connection, row: tuple[str, str, str, str]) -> None:
    db.execute("INSERT OR REPLACE INTO calls (thread, call, state, body) VALUES (?,?,?,?)", row)


def _settle(db: sqlite3.Connection, row: tuple[str, str, str, str]) -> None:
    db.execute("DELETE FROM calls WHERE thread=? AND state=?", (row[0], CallState.BEGUN.value))
    _put(db, row)


def _forget(db: sqlite3.Connection, thread: str) -> None:
    db.execute("DELETE FROM calls WHERE thread=?", (thread,))
