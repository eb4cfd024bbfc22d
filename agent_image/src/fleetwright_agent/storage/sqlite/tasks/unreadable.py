"""What was written of tasks that cannot be read any more, set aside as it lay there before their end takes its place.

For people who look into it with the file in hand. Bounded, in bytes and in time: the newest stay. Refuses: reading it.
"""

import sqlite3
from collections.abc import Iterable
from typing import Final

from fleetwright_agent.protocol.task_events import TERMINAL
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks.push_store import post_rest
from fleetwright_agent.storage.task_log import Stored

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
"""The kind is `snapshot`, or that of an event after it."""
MOST_BYTES: Final = 64 * 1024 * 1024
KEPT_NS: Final = 30 * 24 * 3600 * 1_000_000_000
"""A month: somebody has to notice first. What tasks hold is not kept for ever, damaged or not."""

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


def lose(connection: sqlite3.Connection, *, stored: Stored, now_ns: int) -> tuple[bool, int]:
    """Ends what is lost, unless it runs: a run has its own end to write, and so has the next start.

    Returns whether it was not told before, and of how many such tasks what was written is kept.
    """
    kept = keep(connection, stored.n, updated_ns=stored.updated_ns, found_ns=now_ns)
    return stored.busy or _end(connection, stored), kept


def _end(connection: sqlite3.Connection, stored: Stored) -> bool:
    """Whoever wants to hear of it had heard of its end, if it had one; of this one nobody has."""
    task, snapshot = stored.task, stored.task.SerializeToString()
    row = connection.execute(sql.FIND_STATE, (stored.n,)).fetchone()
    lost = connection.execute(sql.LOSE_TASK, (task.status.state, snapshot, stored.n, stored.seq)).fetchall()
    if not lost:
        return False
    if lost[0][0] and row[0] not in TERMINAL:
        post_rest(connection, stored.n, at_ns=task.status.timestamp.ToNanoseconds(), snapshot=snapshot)
    return True


def keep(connection: sqlite3.Connection, n: int, *, updated_ns: int, found_ns: int, most: int = MOST_BYTES) -> int:
    """Sets aside what lies there of the task, unless it has moved on; returns of how many tasks something is kept."""
    for statement in (_KEEP_SNAPSHOT, _KEEP_EVENTS):
        connection.execute(statement, {"n": n, "updated": updated_ns, "found": found_ns})
    connection.execute(_BOUND, (most,))
    return kept(connection)


def kept(connection: sqlite3.Connection) -> int:
    number: int = connection.execute(_COUNT).fetchone()[0]
    return number


def forget(connection: sqlite3.Connection, *, now_ns: int) -> int:
    """Forgets what was found too long ago; returns of how many tasks something is kept still."""
    connection.execute(_FORGET, (now_ns - KEPT_NS,))
    return kept(connection)


def forget_of(connection: sqlite3.Connection, numbers: Iterable[tuple[int]], *, owner: str) -> None:
    """What was set aside of these tasks, and all of this owner where one is named: somebody wants it gone."""
    connection.executemany(_FORGET_TASK, numbers)
    connection.execute(_FORGET_OWNER, (owner,))
