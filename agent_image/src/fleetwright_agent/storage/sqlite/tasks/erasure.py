"""Queries and deletions for whole owners and conversations in the SQLite task log.

All functions take a connection: the task log decides in which thread they run.
"""

import sqlite3
from collections.abc import Sequence

from fleetwright_agent.storage.sqlite.engine.database import empty_log
from fleetwright_agent.storage.sqlite.tasks import delegations
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks import unreadable as damaged
from fleetwright_agent.storage.tasks.records import DeletedTasks, Key


def keys(connection: sqlite3.Connection, owner: str, context_id: str) -> tuple[Key, ...]:
    return tuple(Key(*row) for row in connection.execute(sql.KEYS_OF, {"owner": owner, "context": context_id}))


def held(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    return frozenset(connection.execute(sql.HELD).fetchall())


def counted(connection: sqlite3.Connection, owner: str, context_id: str) -> DeletedTasks:
    numbers = _numbers(connection, owner, context_id)
    registrations = sum(connection.execute(push.COUNT_REGISTRATIONS, n).fetchone()[0] for n in numbers)
    return DeletedTasks(len(numbers), registrations)


def forget_of(connection: sqlite3.Connection, owner: str, context_id: str) -> None:
    numbers = _numbers(connection, owner, context_id)
    damaged.forget_of(connection, numbers, owner="" if context_id else owner)
    forget(connection, numbers)


def forget(connection: sqlite3.Connection, numbers: Sequence[tuple[int]]) -> None:
    """Delete tasks by their numbers, with all their data."""
    for statement in (*push.FORGET_TASK, *sql.FORGET_TASK):
        connection.executemany(statement, numbers)


def forget_ended(connection: sqlite3.Connection, *, before_ns: int, now_ns: int) -> tuple[int, int]:
    """Delete old tasks, delegations and notifications. Return the number of deleted and of damaged tasks."""
    numbers = connection.execute(sql.ENDED_TASKS, (before_ns,)).fetchall()
    forget(connection, numbers)
    delegations.expire(connection, now_ns)
    connection.execute(push.FORGET_DEAD, (before_ns,))
    return len(numbers), damaged.forget(connection, now_ns=now_ns)


def scrub(connection: sqlite3.Connection) -> None:
    """Rewrite the file without deleted data; must not run in a transaction."""
    connection.execute("VACUUM")
    empty_log(connection)


def _numbers(connection: sqlite3.Connection, owner: str, context_id: str) -> list[tuple[int]]:
    return connection.execute(sql.NUMBERS_OF, {"owner": owner, "context": context_id}).fetchall()
