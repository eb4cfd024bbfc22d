"""Ends the archive's time: the text of messages that a summary has stood for long enough goes, their places stay.

Refuses: touching what is still shown. Apart from the views, so that a sweep imports no loop.
"""

import json
import sqlite3
from typing import Final

from fleetwright_agent.storage.sqlite.engine.database import Database

GONE: Final = "gone"
"""The kind of a message whose text is gone."""


async def expire(database: Database, before: float) -> int:
    """How many messages went; `before` in seconds since the epoch is when they were put aside at the latest."""

    def write(db: sqlite3.Connection) -> int:
        rows = db.execute("SELECT thread, message FROM archived WHERE at < ?", (before,)).fetchall()
        gone = sum(_expire(db, thread, message) for thread, message in rows)
        db.execute("DELETE FROM archived WHERE at < ?", (before,))
        return gone

    gone = await database.run(write)
    database.taken_out()
    return gone


def _expire(db: sqlite3.Connection, thread: str, message: str) -> int:
    # The cut may have taken the request that is under way; that one is shown all the same.
    row = db.execute("SELECT body FROM views WHERE thread=?", (thread,)).fetchone()
    view = json.loads(row[0])["view"] if row else None
    shown = view["request"] if view else ""
    query = (
        "UPDATE messages SET kind=?, body=x'' WHERE thread=? AND id<>? AND kind<>? AND position<="
        "(SELECT position FROM messages WHERE thread=? AND id=?)"
    )
    return db.execute(query, (GONE, thread, shown, GONE, thread, message)).rowcount
