"""The changes to a task's rows: functions that accept, resume, extend, interrupt and end tasks, and look up claims.

All functions take a connection: the task log decides in which thread and transaction they run.
"""

import sqlite3
from dataclasses import replace

from a2a.types.a2a_pb2 import Task, TaskStatusUpdateEvent

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.storage.errors import TaskNotRunning
from fleetwright_agent.storage.sqlite.tasks import dedup_keys, delegations
from fleetwright_agent.storage.sqlite.tasks import statements as sql
from fleetwright_agent.storage.sqlite.tasks.push_store import post_rest
from fleetwright_agent.storage.sqlite.tasks.rows import KINDS
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    DuplicateClaim,
    EventRecord,
    MessageNotAccepted,
    Ownership,
    StoredTask,
    TaskIdInUse,
    TooManyWaitingTasks,
)


def accept(
    connection: sqlite3.Connection,
    claim: Claim,
    task: Task,
    *,
    at_ns: int,
    most_waiting: int | None,
    also: Claim | None,
    delegation: Delegation | None,
    dedup_key: str | None,
) -> AcceptedClaim | DuplicateClaim | TaskIdInUse | TooManyWaitingTasks:
    asked = (claim.owner, claim.message_id, claim.digest, claim.owner)
    known, waiting = connection.execute(sql.FIND_CLAIM_AND_COUNT_WAITING, asked).fetchone()
    if known is not None:
        return DuplicateClaim(known)
    if first := dedup_keys.find_task(connection, dedup_key):
        return DuplicateClaim(first)
    if most_waiting is not None and waiting >= most_waiting:
        return TooManyWaitingTasks()
    snapshot = task.SerializeToString()
    row = (claim.owner, task.id, task.context_id, 1, task.status.state, 1, at_ns, 1, snapshot)
    try:
        n = connection.execute(sql.INSERT_TASK, row).lastrowid
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
            raise
        return TaskIdInUse()
    assert n is not None  # noqa: S101 - SQLite numbers every inserted row; the assertion is for the type checker
    for each in (claim, also):
        if each is not None:
            connection.execute(sql.INSERT_CLAIM, (each.owner, each.message_id, each.digest, n))
    delegations.keep(connection, n, delegation, at_ns=at_ns)
    dedup_keys.store(connection, dedup_key, task.id)
    # The snapshot is the first event.
    return AcceptedClaim(Ownership(n, 1))


def resume(
    connection: sqlite3.Connection,
    claim: Claim,
    stored: StoredTask,
    records: tuple[EventRecord, ...],
    delegation: Delegation | None,
) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
    if known := claimed(connection, claim):
        return known
    run = _wake(connection, stored)
    if run is None:
        return MessageNotAccepted()
    connection.execute(sql.INSERT_CLAIM, (claim.owner, claim.message_id, claim.digest, stored.n))
    delegations.keep(connection, stored.n, delegation, at_ns=records[-1].at_ns)
    for record in records:
        append(connection, run, record)
    return AcceptedClaim(run)


def end(connection: sqlite3.Connection, stored: StoredTask, record: EventRecord, task: Task) -> bool:
    run = _wake(connection, stored)
    if run is None:
        return False
    rest(connection, run=run, records=(record,), task=task)
    return True


def append(connection: sqlite3.Connection, run: Ownership, record: EventRecord) -> None:
    """Append an event to a task. Nothing is appended if the task is not busy or another process owns it."""
    event = record.event
    kind = next(word for word, of in KINDS.items() if isinstance(event, of))
    payload = event.SerializeToString()
    row = {"n": run.n, "epoch": run.epoch, "seq": record.seq, "kind": kind, "at": record.at_ns, "payload": payload}
    connection.execute(sql.INSERT_EVENT, row)
    if isinstance(event, TaskStatusUpdateEvent):
        connection.execute(sql.SHOW_STATE, (event.status.state, record.at_ns, run.n, run.epoch))


def rest(
    connection: sqlite3.Connection,
    *,
    run: Ownership,
    records: tuple[EventRecord, ...],
    task: Task,
    expires_ns: int | None = None,
) -> None:
    """End or interrupt a task with a snapshot that includes all events, so that the events are not read again.

    Raises:
        TaskNotRunning: The task is not busy, or another process owns it.
    """
    last, snapshot = records[-1], task.SerializeToString()
    row = (last.seq, task.status.state, last.at_ns, last.seq, snapshot, expires_ns, run.n, run.epoch)
    rested = connection.execute(sql.REST_TASK, row).fetchall()
    if not rested:
        raise TaskNotRunning(f"task number {run.n} is at rest already, or another process has taken it up")
    if rested[0][0]:
        post_rest(connection, run.n, at_ns=last.at_ns, snapshot=snapshot)


def done(connection: sqlite3.Connection, statement: str, values: tuple[int, ...]) -> None:
    connection.execute(statement, values)


def take_up(connection: sqlite3.Connection, stored: StoredTask, *, now_ns: int) -> StoredTask | None:
    values = {"n": stored.n, "epoch": stored.epoch, "now": now_ns}
    taken = connection.execute(sql.TAKE_UP, values).fetchall()
    if not taken:
        return None
    epoch, taken_up, began_ns = taken[0]
    return replace(stored, epoch=epoch, taken_up=taken_up, began_ns=began_ns)


def _wake(connection: sqlite3.Connection, stored: StoredTask) -> Ownership | None:
    woken = connection.execute(sql.WAKE_TASK, (stored.n, stored.seq)).fetchall()
    return Ownership(stored.n, woken[0][0]) if woken else None


def claimed(connection: sqlite3.Connection, claim: Claim) -> DuplicateClaim | None:
    row = connection.execute(sql.FIND_CLAIM, (claim.owner, claim.message_id, claim.digest)).fetchone()
    return None if row is None else DuplicateClaim(row[0])
