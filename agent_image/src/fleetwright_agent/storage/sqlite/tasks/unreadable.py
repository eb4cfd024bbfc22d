"""The original data of unreadable tasks, copied to a separate table before a failed task replaces it.

The copies are meant for people who examine the file. Their total size and their age are limited, and the oldest copies
are deleted first. The agent itself never reads them.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from fleetwright_a2a.task_events import TERMINAL
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks.push_store import post_rest
from fleetwright_agent.storage.tasks.records import StoredTask

SCHEMA: Final = """
CREATE TABLE damaged (
  n INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  owner TEXT NOT NULL,
  task TEXT NOT NULL,
  found_ns INTEGER NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (n, seq, kind)
) WITHOUT ROWID;
"""
"""The kind is `snapshot`, or the kind of an event after the snapshot."""
MOST_BYTES: Final = 64 * 1024 * 1024
KEPT_NS: Final = 30 * 24 * 3600 * 1_000_000_000
"""Thirty days, so that people have time to notice the damage. The limit ensures that no data is kept forever."""

_COUNT = "SELECT count(DISTINCT n) FROM damaged"
_KEEP_SNAPSHOT = (
    "INSERT OR IGNORE INTO damaged"
    " SELECT n, snapshot_seq, 'snapshot', owner, id, :found, snapshot FROM tasks WHERE n = :n AND updated_ns = :updated"
)
_KEEP_EVENTS = (
    "INSERT OR IGNORE INTO damaged SELECT n, events.seq, kind, owner, id, :found, payload"
    " FROM events JOIN tasks USING (n) WHERE n = :n AND updated_ns = :updated"
)
_BOUND = (
    "DELETE FROM damaged WHERE n IN (SELECT n FROM (SELECT n, sum(sum(length(payload)))"
    " OVER (ORDER BY max(found_ns) DESC, n DESC) AS kept FROM damaged GROUP BY n) WHERE kept > ?)"
)
_FORGET_TASK = "DELETE FROM damaged WHERE n = ?"
_FORGET_OWNER = "DELETE FROM damaged WHERE owner = ?"
_FORGET = "DELETE FROM damaged WHERE found_ns < ?"


def lose(connection: sqlite3.Connection, *, stored: StoredTask, now_ns: int) -> tuple[bool, int]:
    """Keep the data of an unreadable task, and end the task unless a run works on it.

    A running task is ended by its run or by the next start of the agent. Return whether the damage must be reported,
    and the number of tasks whose data is kept.
    """
    kept = keep(connection, stored.n, updated_ns=stored.updated_ns, found_ns=now_ns)
    return stored.busy or _end(connection, stored), kept


def _end(connection: sqlite3.Connection, stored: StoredTask) -> bool:
    """End the task in the log; notify push receivers, unless they were notified of an earlier end."""
    task, snapshot = stored.task, stored.task.SerializeToString()
    row = connection.execute(sql.FIND_STATE, (stored.n,)).fetchone()
    lost = connection.execute(sql.LOSE_TASK, (task.status.state, snapshot, stored.n, stored.seq)).fetchall()
    if not lost:
        return False
    if lost[0][0] and row[0] not in TERMINAL:
        post_rest(connection, stored.n, at_ns=task.status.timestamp.ToNanoseconds(), snapshot=snapshot)
    return True


def keep(connection: sqlite3.Connection, n: int, *, updated_ns: int, found_ns: int, most: int = MOST_BYTES) -> int:
    """Copy the data of the task unless it has changed since; return the number of tasks whose data is kept."""
    for statement in (_KEEP_SNAPSHOT, _KEEP_EVENTS):
        connection.execute(statement, {"n": n, "updated": updated_ns, "found": found_ns})
    connection.execute(_BOUND, (most,))
    return kept(connection)


def kept(connection: sqlite3.Connection) -> int:
    number: int = connection.execute(_COUNT).fetchone()[0]
    return number


def forget(connection: sqlite3.Connection, *, now_ns: int) -> int:
    """Delete data that is too old; return the number of tasks whose data is kept."""
    connection.execute(_FORGET, (now_ns - KEPT_NS,))
    return kept(connection)


def forget_of(connection: sqlite3.Connection, numbers: Iterable[tuple[int]], *, owner: str) -> None:
    """Delete the data of these tasks, and all data of the owner if `owner` is not empty."""
    connection.executemany(_FORGET_TASK, numbers)
    connection.execute(_FORGET_OWNER, (owner,))
