"""Converts rows of the task log to tasks, even if the stored data is unreadable.

SQLite detects damaged pages, but not damaged data in a column. A row with an unreadable snapshot becomes a failed task,
built from the other columns. This module does not write to the log.
"""

import sqlite3
from typing import Final, NamedTuple

from a2a.types.a2a_pb2 import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from google.protobuf.message import DecodeError

from fleetwright_a2a.task_builder import replay
from fleetwright_a2a.task_events import Event, fold
from fleetwright_agent.protocol.termination_reasons import UNREADABLE, terminal_status
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.tasks.records import EventRecord, StoredTask, TaskChanges

KINDS: Final[dict[str, type[Event]]] = {
    "message": Message,
    "status": TaskStatusUpdateEvent,
    "artifact": TaskArtifactUpdateEvent,
}


class TaskRow(NamedTuple):
    """A row of the table `tasks`, as the statements select it."""

    n: int
    owner: str
    task_id: str
    context_id: str
    busy: int
    epoch: int
    taken_up: int
    began_ns: int | None
    snapshot_seq: int
    updated_ns: int
    snapshot: bytes


def stored(connection: sqlite3.Connection, row: TaskRow) -> StoredTask:
    """Return the task of a row, with the events after its snapshot applied."""
    later = connection.execute(sql.EVENTS_AFTER, (row.n, row.snapshot_seq)).fetchall()
    task = _task(row, later)
    return StoredTask(
        n=row.n,
        owner=row.owner,
        seq=later[-1][0] if later else row.snapshot_seq,
        busy=bool(row.busy),
        epoch=row.epoch,
        updated_ns=row.updated_ns,
        taken_up=row.taken_up,
        began_ns=row.began_ns,
        task=_lost(row) if task is None else task,
        lost=task is None,
    )


def changes(connection: sqlite3.Connection, row: TaskRow, seq: int) -> TaskChanges | None:
    """Return the changes of a row's task after the sequence number `seq`, or `None` if the row cannot be read."""
    records = connection.execute(sql.RECORDS_AFTER, (row.n, max(seq, row.snapshot_seq))).fetchall()
    last = records[-1][0] if records else max(seq, row.snapshot_seq)
    if seq < row.snapshot_seq:
        whole = stored(connection, row)
        return None if whole.lost else TaskChanges(last, whole.busy, task=whole.task)
    try:
        events = tuple(EventRecord(at, ns, KINDS[kind].FromString(payload)) for at, ns, kind, payload in records)
    except (DecodeError, KeyError):
        return None
    return TaskChanges(last, bool(row.busy), events)


def _task(row: TaskRow, later: list[tuple[int, str, bytes]]) -> Task | None:
    try:
        task = replay(Task.FromString(row.snapshot), (KINDS[kind].FromString(payload) for _, kind, payload in later))
    except (DecodeError, KeyError):
        return None
    return task if task.id == row.task_id else None


def _lost(row: TaskRow) -> Task:
    task = Task(id=row.task_id, context_id=row.context_id)
    fold(task, terminal_status(task, UNREADABLE, at_ns=row.updated_ns))
    return task
