"""The deduplication keys of the SQLite task log. A key stays when its task is deleted.

All functions take a connection: the task log decides in which thread and transaction they run.
"""

import sqlite3
from typing import Final

SCHEMA: Final = "CREATE TABLE dedup_keys (key TEXT PRIMARY KEY, task_id TEXT NOT NULL) WITHOUT ROWID;"
_STORE: Final = "INSERT INTO dedup_keys (key, task_id) VALUES (?, ?)"
_FIND: Final = "SELECT task_id FROM dedup_keys WHERE key = ?"


def store(connection: sqlite3.Connection, key: str | None, task_id: str) -> None:
    """Store the key under which a task is accepted, if it has one."""
    if key is not None:
        connection.execute(_STORE, (key, task_id))


def find_task(connection: sqlite3.Connection, key: str | None) -> str | None:
    """Return the id of the task that was accepted under the key. The task may have been deleted since."""
    row = None if key is None else connection.execute(_FIND, (key,)).fetchone()
    return None if row is None else row[0]
