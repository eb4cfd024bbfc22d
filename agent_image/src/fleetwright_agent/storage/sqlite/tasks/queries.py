"""The reads of the task log, each on a connection to its file."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks.rows import TaskRow, changes, stored
from fleetwright_agent.storage.tasks.records import Key, PagePosition, StoredTask, TaskChanges, TaskPage, TaskQuery


def find(connection: sqlite3.Connection, *, owner: str, task_id: str) -> StoredTask | None:
    row = connection.execute(sql.FIND_TASK, (owner, task_id)).fetchone()
    return None if row is None else stored(connection, TaskRow(*row))


def changes_since(connection: sqlite3.Connection, *, owner: str, task_id: str, seq: int) -> TaskChanges | None:
    """Return the records after a sequence number; None if the owner has no such task."""
    row = connection.execute(sql.FIND_TASK, (owner, task_id)).fetchone()
    return None if row is None else changes(connection, TaskRow(*row), seq)


def page(connection: sqlite3.Connection, *, query: TaskQuery) -> TaskPage:
    where, values = sql.filters(query)
    total = connection.execute(sql.count(where), values).fetchone()[0]
    # Rows are read one at a time, so rows that do not fit on the page are not loaded.
    with closing(connection.execute(sql.select_page(where, after=query.after is not None), values)) as rows:
        read = map(TaskRow._make, rows)
        found = ((PagePosition(row.updated_ns, row.task_id), stored(connection, row)) for row in read)
        return TaskPage.of(found, size=query.size, total=total)


def number(connection: sqlite3.Connection, *, select: str) -> int | None:
    found: int | None = connection.execute(select).fetchone()[0]
    return found


def keys(connection: sqlite3.Connection, *, select: str, values: Sequence[int | str]) -> tuple[Key, ...]:
    return tuple(Key(*row) for row in connection.execute(select, values))
