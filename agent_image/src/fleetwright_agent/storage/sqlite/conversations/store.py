"""Whole stored conversations in the database of conversations."""

import asyncio
import importlib
import sqlite3
from collections.abc import Collection
from typing import Final

from fleetwright_agent.storage.conversations import (
    ConversationUse,
    Place,
    SideThread,
    Transcript,
    conversation,
    side_threads_of,
    uses_of,
)
from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.conversations.archive import expire_archive, oldest_archived
from fleetwright_agent.storage.sqlite.conversations.failing_compactions import count_failing_compactions
from fleetwright_agent.storage.sqlite.engine.database import Database

_FORK: Final = "INSERT OR IGNORE INTO forks (owner, context, source) VALUES (:owner, :context, :source)"
# UNION without ALL ends at a cycle: a deleted conversation may begin again under its id, as a fork of its own fork.
_FORKS: Final = (
    "WITH RECURSIVE descendants (context) AS (SELECT :source UNION SELECT forks.context FROM descendants"
    " JOIN forks ON forks.owner = :owner AND forks.source = descendants.context)"
    " SELECT context FROM descendants WHERE context != :source ORDER BY context"
)
_RENAME: Final = (
    "INSERT OR REPLACE INTO titles (thread, title)"
    " SELECT :thread, :title WHERE EXISTS (SELECT 1 FROM checkpoints WHERE thread = :thread) RETURNING 1"
)
_TITLE: Final = "SELECT title FROM titles WHERE thread = ?"
_TRANSCRIPTS: Final = "fleetwright_agent.storage.sqlite.conversations.transcripts"


class SqliteConversationStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def last_uses(self, owner: str = "") -> list[ConversationUse]:
        condition = f" WHERE {threads.BELOW}" if owner else ""
        query = f"SELECT thread, at FROM checkpoints{condition}"  # noqa: S608 - interpolates only constants
        return uses_of(await self._database.run(lambda db: db.execute(query, threads.below(owner)).fetchall()))

    async def transcript(self, owner: str, context_id: str) -> list[Transcript]:
        # Imported here, because decoding messages needs LangGraph, whose import is slow.
        transcripts = await asyncio.to_thread(importlib.import_module, _TRANSCRIPTS)
        found: list[Transcript] = await transcripts.transcript(self._database, owner, context_id)
        return found

    async def forget(self, places: Collection[Place]) -> None:
        def write(db: sqlite3.Connection) -> None:
            for owner, context_id in places:
                threads.delete_conversation(db, owner, context_id)

        await self._database.run(write)
        self._database.taken_out()

    async def fork(self, owner: str, context_id: str, *, source: str) -> None:
        values = {"owner": owner, "context": context_id, "source": source}

        def write(db: sqlite3.Connection) -> None:
            db.execute(_FORK, values)

        await self._database.run(write)

    async def forks(self, owner: str, source: str) -> list[str]:
        values = {"owner": owner, "source": source}
        rows = await self._database.run(lambda db: db.execute(_FORKS, values).fetchall())
        return [context_id for (context_id,) in rows]

    async def rename(self, owner: str, context_id: str, title: str) -> bool:
        values = {"thread": conversation(owner, context_id), "title": title}
        rows = await self._database.run(lambda db: db.execute(_RENAME, values).fetchall(), after=values["thread"])
        return bool(rows)

    async def titles(self, owner: str, context_ids: Collection[str]) -> dict[str, str]:
        def read(db: sqlite3.Connection) -> dict[str, str]:
            found = {each: db.execute(_TITLE, (conversation(owner, each),)).fetchone() for each in context_ids}
            return {context_id: row[0] for context_id, row in found.items() if row is not None}

        return await self._database.read(read)

    async def side_threads(self) -> list[SideThread]:
        rows = await self._database.run(lambda db: db.execute("SELECT DISTINCT thread FROM checkpoints").fetchall())
        return side_threads_of(thread for (thread,) in rows)

    async def forget_side_thread(self, side: SideThread) -> None:
        await self._database.run(lambda db: threads.delete_below(db, side.thread))
        self._database.taken_out()

    async def expire_archive(self, before: float) -> int:
        return await expire_archive(self._database, before)

    async def oldest_archived(self) -> float | None:
        return await oldest_archived(self._database)

    async def count_failing_compactions(self, *, at_least: int) -> int:
        return await count_failing_compactions(self._database, at_least=at_least)
