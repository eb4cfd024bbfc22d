"""The delegations of tasks in the SQLite task log: at most one for each task.

The row of an expired delegation stays without its token until the task is deleted. Without the row, the task would look
like one in which the agent acts for itself.

All functions take a connection: the task log decides in which thread and transaction they run.
"""

import sqlite3
from typing import Final

from fleetwright_a2a.authentication import Delegation

SCHEMA: Final = """
CREATE TABLE delegations (n INTEGER PRIMARY KEY, expires_at INTEGER NOT NULL, token TEXT NOT NULL);
CREATE INDEX delegations_by_expiry ON delegations (expires_at);
"""
INDEX_OF_VALID: Final = """
DROP INDEX delegations_by_expiry;
CREATE INDEX delegations_by_expiry ON delegations (expires_at) WHERE token <> '';
"""
"""The rows of expired delegations stay, so the index of those that can still expire leaves them out."""
FORGET: Final = "DELETE FROM delegations WHERE n = ?"
_KEEP: Final = "INSERT OR REPLACE INTO delegations (n, expires_at, token) VALUES (?, ?, ?)"
_EXPIRE: Final = "UPDATE delegations SET token = '' WHERE expires_at <= ? AND token <> ''"
_FIND: Final = (
    "SELECT token, delegations.expires_at, tasks.id FROM delegations JOIN tasks USING (n)"
    " WHERE tasks.owner = ? AND tasks.id = ?"
)


def keep(connection: sqlite3.Connection, n: int, delegation: Delegation | None, *, at_ns: int) -> None:
    """Store the delegation of a task, if there is one, and delete the tokens of expired delegations."""
    if delegation is not None:
        expire(connection, at_ns)
        connection.execute(_KEEP, (n, delegation.expires_at, delegation.token))


def expire(connection: sqlite3.Connection, at_ns: int) -> None:
    connection.execute(_EXPIRE, (at_ns // 1_000_000_000,))


def find(connection: sqlite3.Connection, owner: str, task_id: str) -> Delegation | None:
    row = connection.execute(_FIND, (owner, task_id)).fetchone()
    return None if row is None else Delegation(*row)
