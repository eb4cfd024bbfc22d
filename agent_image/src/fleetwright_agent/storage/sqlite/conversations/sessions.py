"""The sessions in the database of conversations."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

from fleetwright_agent.storage.sessions import Session
from fleetwright_agent.storage.sqlite.engine.database import Database


class SqliteSessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self, owner: str, context_id: str, change: Callable[[Session | None], Session], *, most: int
    ) -> "asyncio.Future[None]":
        def write(db: sqlite3.Connection) -> None:
            known = next(_read(db, "owner=? AND context=?", owner, context_id), None)
            _write(db, owner, change(known))
            if known is None:
                db.execute(_FORGET, {"owner": owner, "kept": most})

        return self._database.put(write, of=_name(owner), keeps_failure=False)

    async def written(self, writing: "asyncio.Future[None]") -> None:
        await self._database.commit(writing)

    async def newest(self, owner: str, *, but: str, most: int) -> list[Session]:
        condition = f"owner=? AND context<>? ORDER BY updated DESC LIMIT {most:d}"
        return await self._database.look(lambda db: [*_read(db, condition, owner, but)], of=_name(owner))

    async def of(self, owner: str, context_id: str = "") -> list[Session]:
        condition = "owner=? AND ? IN ('', context) ORDER BY updated DESC"
        return await self._database.read(lambda db: [*_read(db, condition, owner, context_id)])

    async def expire(self, before: float) -> None:
        await self._database.run(lambda db: _expire(db, before))

    async def oldest(self) -> float | None:
        return await self._database.run(_oldest)


def erase(db: sqlite3.Connection, owner: str, context_id: str = "") -> None:
    """Delete one session, or all sessions of the owner."""
    db.execute("DELETE FROM sessions WHERE owner=? AND ? IN ('', context)", (owner, context_id))


_FORGET: Final = (
    "DELETE FROM sessions WHERE owner = :owner AND context IN"
    " (SELECT context FROM sessions WHERE owner = :owner ORDER BY updated DESC LIMIT -1 OFFSET :kept)"
)


def _read(db: sqlite3.Connection, condition: str, *values: str) -> Iterator[Session]:
    query = f"SELECT context, updated, body FROM sessions WHERE {condition}"  # noqa: S608 - interpolates only constants
    for context_id, updated, body in db.execute(query, values):
        yield Session(context_id=context_id, updated=updated, **json.loads(body))


def _write(db: sqlite3.Connection, owner: str, session: Session) -> None:
    body = {
        "exchanges": session.exchanges,
        "tool_calls": session.tool_calls,
        "tool_calls_total_count": session.tool_calls_total_count,
        "trace_id": session.trace_id,
    }
    row = (owner, session.context_id, session.updated, json.dumps(body))
    db.execute("INSERT OR REPLACE INTO sessions (owner, context, updated, body) VALUES (?,?,?,?)", row)


def _expire(db: sqlite3.Connection, before: float) -> None:
    db.execute("DELETE FROM sessions WHERE updated < ?", (before,))


def _oldest(db: sqlite3.Connection) -> float | None:
    updated: float | None = db.execute("SELECT min(updated) FROM sessions").fetchone()[0]
    return updated


def _name(owner: str) -> str:
    """Return the name under which writes of an owner's rows are queued."""
    return f"session\n{owner}"
