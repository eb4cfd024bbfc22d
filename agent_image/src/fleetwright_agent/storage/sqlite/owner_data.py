"""Counts and erases the data of an owner, or of one conversation, in the database of conversations."""

import asyncio
import importlib
import sqlite3
from collections.abc import Collection
from typing import Final

from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.sqlite.conversations import sessions, threads
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.usage_store import disown

_FORGET_QUESTIONS: Final = "DELETE FROM questions WHERE owner = :owner AND :context IN ('', context)"
_SCRUB: Final = "fleetwright_agent.storage.sqlite.conversations.prior_session_scrub"


class SqliteOwnerData:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def counted(self, target: ErasureTarget) -> dict[str, int]:
        return await _counted(self._database, target)

    async def erase(self, target: ErasureTarget, *, tasks: Collection[str]) -> None:
        await _erase(self._database, target, tasks=tasks)


async def _counted(database: Database, target: ErasureTarget) -> dict[str, int]:
    values = threads.below(_name(target))

    def read(db: sqlite3.Connection) -> dict[str, int]:
        found = {
            "conversations": f"SELECT count(*) FROM checkpoints WHERE {threads.BELOW}",  # noqa: S608 - interpolates only constants
            "messages": f"SELECT count(*) FROM messages WHERE {threads.BELOW}",  # noqa: S608 - interpolates only constants
        }
        counts = {store: int(db.execute(query, values).fetchone()[0]) for store, query in found.items()}
        for store, table in {"sessions": "sessions", "delegations": "peer_calls"}.items():
            query = f"SELECT count(*) FROM {table} WHERE owner = ? AND ? IN ('', context)"  # noqa: S608 - interpolates only constants
            counts[store] = int(db.execute(query, (target.owner, target.context_id)).fetchone()[0])
        if not target.context_id:
            query = "SELECT count(*) FROM ledger WHERE caller = ?"
            counts["costs"] = int(db.execute(query, (target.owner,)).fetchone()[0])
        return counts

    return await database.run(read)


async def _erase(database: Database, target: ErasureTarget, *, tasks: Collection[str]) -> None:
    # Imported here, because the module imports LangGraph, which is slow.
    scrub = await asyncio.to_thread(importlib.import_module, _SCRUB)

    def write(db: sqlite3.Connection) -> None:
        if target.context_id:
            threads.delete_conversation(db, target.owner, target.context_id)
            db.execute("DELETE FROM forks WHERE owner = ? AND context = ?", (target.owner, target.context_id))
            scrub.scrub_prior_sessions(db, target.owner)
        else:
            threads.delete_owner(db, target.owner)
            disown(db, target.owner)
        sessions.erase(db, target.owner, target.context_id)
        db.execute(_FORGET_QUESTIONS, {"owner": target.owner, "context": target.context_id})
        db.executemany("DELETE FROM spent WHERE owner = ? AND task = ?", [(target.owner, task) for task in tasks])

    await database.run(write)
    database.taken_out()


def _name(target: ErasureTarget) -> str:
    return conversation(target.owner, target.context_id) if target.context_id else target.owner
