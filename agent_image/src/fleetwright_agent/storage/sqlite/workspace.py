"""Stores the workspace state of conversations in their database."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Final

from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.workspace import MOST_EDITS, MOST_FILES, FileVersion, Todo, WorkspaceRecord

_RECORD_READ: Final = """
INSERT OR REPLACE INTO files_read (thread, path, digest, mtime_ns, number, at)
VALUES (?1, ?2, ?3, ?4, (SELECT coalesce(max(number), 0) + 1 FROM files_read WHERE thread = ?1), ?5)
"""
_DROP: Final = """
DELETE FROM files_read WHERE thread = ?1
AND number <= (SELECT number FROM files_read WHERE thread = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)
"""
_DROP_EDITS: Final = """
DELETE FROM edits WHERE thread = ?1
AND call NOT IN (SELECT call FROM edits WHERE thread = ?1 ORDER BY at DESC LIMIT ?2)
"""


class SqliteWorkspaceStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        self._database = database
        self._now = now

    def record_read(self, owner: str, context_id: str, path: str, version: FileVersion) -> "asyncio.Future[None]":
        thread = conversation(owner, context_id)
        row = (thread, path, version.digest, version.mtime_ns, self._now())
        return self._database.put(lambda db: _record_read(db, row), of=_name(thread))

    async def last_read(self, owner: str, context_id: str, path: str) -> FileVersion | None:
        thread = conversation(owner, context_id)
        query = "SELECT digest, mtime_ns FROM files_read WHERE thread=? AND path=?"
        found = await self._database.look(lambda db: db.execute(query, (thread, path)).fetchone(), of=_name(thread))
        return None if found is None else FileVersion(*found)

    async def recent(self, owner: str, context_id: str, *, most: int) -> list[str]:
        thread = conversation(owner, context_id)
        query = "SELECT path FROM files_read WHERE thread=? ORDER BY number DESC LIMIT ?"
        rows = await self._database.look(lambda db: db.execute(query, (thread, most)).fetchall(), of=_name(thread))
        return [path for (path,) in rows]

    async def begin_edit(self, owner: str, context_id: str, call: str, digest: str) -> None:
        thread = conversation(owner, context_id)
        row = (thread, call, digest, self._now())
        await self._database.run(lambda db: _begin_edit(db, row))

    async def intended_digest(self, owner: str, context_id: str, call: str) -> str | None:
        values = (conversation(owner, context_id), call)
        query = "SELECT digest FROM edits WHERE thread=? AND call=?"
        found = await self._database.look(lambda db: db.execute(query, values).fetchone())
        return None if found is None else str(found[0])

    async def put_todos(self, owner: str, context_id: str, todos: Sequence[Todo]) -> None:
        row = (conversation(owner, context_id), json.dumps([asdict(todo) for todo in todos]))
        await self._database.run(lambda db: _put_todos(db, row))

    async def todos(self, owner: str, context_id: str) -> list[Todo]:
        thread = conversation(owner, context_id)
        query = "SELECT body FROM todos WHERE thread=?"
        found = await self._database.look(lambda db: db.execute(query, (thread,)).fetchone())
        return [] if found is None else _todos(found[0])

    async def of(self, owner: str, context_id: str = "") -> list[WorkspaceRecord]:
        values = threads.below(conversation(owner, context_id) if context_id else owner)
        files = f"SELECT thread, path FROM files_read WHERE {threads.BELOW} ORDER BY number DESC"  # noqa: S608 - interpolates only constants
        lists = f"SELECT thread, body FROM todos WHERE {threads.BELOW}"  # noqa: S608 - interpolates only constants

        def read(db: sqlite3.Connection) -> tuple[list[tuple[str, str]], dict[str, str]]:
            return db.execute(files, values).fetchall(), dict(db.execute(lists, values).fetchall())

        read_files, bodies = await self._database.run(read)
        # Skip the separate threads of tasks: they have copies of the data of their conversations.
        known = sorted({*(thread for thread, _ in read_files), *bodies})
        return [
            WorkspaceRecord(
                thread.split("\n")[1],
                tuple(path for of, path in read_files if of == thread),
                tuple(_todos(bodies.get(thread, "[]"))),
            )
            for thread in known
            if thread.count("\n") == 1
        ]


def _name(thread: str) -> str:
    """Return the name under which the writes of read files are queued. The turn itself does not wait for them."""
    return f"{thread}\nfiles"


def _record_read(db: sqlite3.Connection, row: tuple[str, str, str, int, float]) -> None:
    db.execute(_RECORD_READ, row)
    db.execute(_DROP, (row[0], MOST_FILES))


def _begin_edit(db: sqlite3.Connection, row: tuple[str, str, str, float]) -> None:
    db.execute("INSERT OR REPLACE INTO edits (thread, call, digest, at) VALUES (?,?,?,?)", row)
    db.execute(_DROP_EDITS, (row[0], MOST_EDITS))


def _put_todos(db: sqlite3.Connection, row: tuple[str, str]) -> None:
    db.execute("INSERT OR REPLACE INTO todos (thread, body) VALUES (?,?)", row)


def _todos(body: str) -> list[Todo]:
    return [Todo(**todo) for todo in json.loads(body)]
