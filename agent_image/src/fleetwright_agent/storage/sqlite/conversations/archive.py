"""Deletes the text of archived messages when their retention time ends. Their positions in the conversation stay.

Messages that a view still shows are not changed. This module is separate from `views.py`, so that maintenance does not
import LangGraph.
"""

import json
import sqlite3

from fleetwright_agent.storage.conversations import GONE
from fleetwright_agent.storage.sqlite.engine.database import Database


async def expire_archive(database: Database, before: float) -> int:
    """Delete the text of messages archived before `before`, in seconds since the epoch, and return their number."""

    def write(db: sqlite3.Connection) -> int:
        rows = db.execute("SELECT thread, message FROM archived WHERE at < ?", (before,)).fetchall()
        gone = sum(_expire(db, thread, message) for thread, message in rows)
        db.execute("DELETE FROM archived WHERE at < ?", (before,))
        return gone

    gone = await database.run(write)
    database.taken_out()
    return gone


async def oldest_archived(database: Database) -> float | None:
    """Return the time of the oldest archived message, or None."""

    def read(db: sqlite3.Connection) -> float | None:
        at: float | None = db.execute("SELECT min(at) FROM archived").fetchone()[0]
        return at

    return await database.run(read)


def _expire(db: sqlite3.Connection, thread: str, message: str) -> int:
    # The cut may include the current request, which the view still shows.
    row = db.execute("SELECT body FROM views WHERE thread=?", (thread,)).fetchone()
    view = json.loads(row[0])["view"] if row else None
    shown = view["request"] if view else ""
    query = (
        "UPDATE messages SET kind=?, body=x'' WHERE thread=? AND id<>? AND kind<>? AND position<="
        "(SELECT position FROM messages WHERE thread=? AND id=?)"
    )
    return db.execute(query, (GONE, thread, shown, GONE, thread, message)).rowcount
