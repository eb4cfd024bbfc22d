"""The statements of the SQLite task log. Values from callers are always bound, never written into a statement."""

# ruff: noqa: S608 - statements are built from constants of this file and the numbers of an enumeration

from collections.abc import Collection

from a2a.types.a2a_pb2 import TaskState

from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL
from fleetwright_agent.storage.sqlite.tasks import delegations
from fleetwright_agent.storage.tasks.records import TaskQuery

INSERT_TASK = (
    "INSERT INTO tasks (n, owner, id, context_id, seq, state, busy, updated_ns, snapshot_seq, snapshot)"
    " SELECT last + 1, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM numbers"
)
INSERT_CLAIM = "INSERT INTO claims (owner, message_id, digest, n) VALUES (?, ?, ?, ?)"
INSERT_EVENT = (
    "INSERT INTO events (n, seq, kind, at_ns, payload) SELECT :n, :seq, :kind, :at, :payload"
    " WHERE EXISTS (SELECT 1 FROM tasks WHERE n = :n AND busy = 1 AND epoch = :epoch)"
)
SHOW_STATE = "UPDATE tasks SET state = ?, updated_ns = ? WHERE n = ? AND busy = 1 AND epoch = ?"
_TELLS_WHETHER_AWAITED = "RETURNING EXISTS (SELECT 1 FROM push_configs WHERE push_configs.n = tasks.n)"
"""Returns whether the task has push registrations. This is part of the update, because each further statement competes
with the event loop for Python's global interpreter lock."""
REST_TASK = (
    "UPDATE tasks SET seq = ?, state = ?, busy = 0, updated_ns = ?, snapshot_seq = ?, snapshot = ?,"
    f" expires_ns = ? WHERE n = ? AND busy = 1 AND epoch = ? {_TELLS_WHETHER_AWAITED}"
)
LOSE_TASK = (
    "UPDATE tasks SET state = ?, snapshot = ?, expires_ns = NULL"
    f" WHERE n = ? AND seq = ? AND busy = 0 {_TELLS_WHETHER_AWAITED}"
)
FIND_CLAIM = (
    "SELECT tasks.id FROM claims JOIN tasks USING (n)"
    " WHERE claims.owner = ? AND claims.message_id = ? AND claims.digest = ?"
)
FIND_REUSE = "SELECT 1 FROM claims WHERE owner = ? AND message_id = ? AND digest <> ? LIMIT 1"
_ROW = "SELECT n, owner, id, context_id, busy, epoch, taken_up, began_ns, snapshot_seq, updated_ns, snapshot FROM tasks"
TAKE_UP = (
    "UPDATE tasks SET epoch = epoch + 1, taken_up = taken_up + (began_ns IS NOT NULL), began_ns = began_ns"
    " + max(0, :now - max(began_ns, updated_ns, (SELECT alive_ns FROM numbers)))"
    " WHERE n = :n AND busy = 1 AND epoch = :epoch RETURNING epoch, taken_up, began_ns"
)
"""Raises the epoch of a busy task, and counts this process if the work on the task has begun.

The start of the work is shifted by the downtime: the time since the last heartbeat of the process or of the task.
"""
LIVE = "UPDATE numbers SET alive_ns = ?"
BEGIN_TASK = "UPDATE tasks SET began_ns = ? WHERE n = ? AND busy = 1 AND epoch = ? AND began_ns IS NULL"
LEAVE_TASK = "UPDATE tasks SET taken_up = 0 WHERE n = ? AND epoch = ?"
FIND_STATE = "SELECT state FROM tasks WHERE n = ?"
FIND_TASK = f"{_ROW} WHERE owner = ? AND id = ?"
BUSY_TASKS = (
    "SELECT owner, id FROM tasks WHERE busy = 1"
    " ORDER BY began_ns IS NULL, coalesce(after_n, n), after_n IS NOT NULL, updated_ns, n"
)
"""Tasks whose work has begun come first. A continued task comes after the tasks that were accepted before its message.

Waiting tasks get their changed positions in the order of the queue, so `updated_ns` keeps the order among them.
"""
EXPIRED_TASKS = "SELECT owner, id FROM tasks WHERE busy = 0 AND expires_ns <= ?"
NEXT_EXPIRY = "SELECT min(expires_ns) FROM tasks WHERE busy = 0 AND expires_ns IS NOT NULL"
EVENTS_AFTER = "SELECT seq, kind, payload FROM events WHERE n = ? AND seq > ? ORDER BY seq"
RECORDS_AFTER = "SELECT seq, at_ns, kind, payload FROM events WHERE n = ? AND seq > ? ORDER BY seq"
FORGET_TASK = (
    delegations.FORGET,
    "DELETE FROM claims WHERE n = ?",
    "DELETE FROM events WHERE n = ?",
    "DELETE FROM tasks WHERE n = ?",
)


def _states(states: Collection[TaskState]) -> str:
    return ", ".join(str(int(state)) for state in sorted(states))


ENDED = _states(TERMINAL)
ENDED_TASKS = f"SELECT n FROM tasks WHERE busy = 0 AND updated_ns < ? AND state IN ({ENDED})"
OLDEST_ENDED = f"SELECT min(updated_ns) FROM tasks WHERE busy = 0 AND state IN ({ENDED})"

_INTERRUPTED = _states(INTERRUPTED)
_WAITING = f"busy = 0 AND state IN ({_INTERRUPTED})"
INDEX_WAITING = f"CREATE INDEX tasks_waiting ON tasks (owner) WHERE {_WAITING};"
FIND_CLAIM_AND_COUNT_WAITING = f"SELECT ({FIND_CLAIM}), (SELECT count(*) FROM tasks WHERE owner = ? AND {_WAITING})"
_OF = "owner = :owner AND :context IN ('', context_id)"
KEYS_OF = f"SELECT owner, id FROM tasks WHERE {_OF} ORDER BY n"
WAITING_TASKS = f"SELECT owner, id FROM tasks WHERE {_WAITING} ORDER BY updated_ns, n"
NAMED_TASKS = "SELECT owner, id FROM tasks WHERE id = ? ORDER BY n"
NUMBERS_OF = f"SELECT n FROM tasks WHERE {_OF}"
HELD = f"SELECT DISTINCT owner, context_id FROM tasks WHERE busy = 1 OR ({_WAITING})"
WAKE_TASK = (
    "UPDATE tasks SET busy = 1, epoch = epoch + 1, taken_up = 0, began_ns = NULL,"
    " after_n = (SELECT last FROM numbers)"
    f" WHERE n = ? AND seq = ? AND {_WAITING} RETURNING epoch"
)


def filters(query: TaskQuery) -> tuple[str, dict[str, object]]:
    # Without an owner, the index does not apply, so SQLite reads all tasks: those of 24 hours by default, and of up to
    # a year with memory.taskRetention. Only administrators ask for that.
    conditions = ["owner = :owner" if query.owner is not None else "true"]
    if query.context_id:
        conditions.append("context_id = :context_id")
    if query.state:
        conditions.append("state = :state")
    if query.since_ns:
        conditions.append("updated_ns >= :since")
    values: dict[str, object] = {
        "owner": query.owner,
        "context_id": query.context_id,
        "state": int(query.state),
        "since": query.since_ns,
        "limit": query.size + 1,
        "after_ns": query.after.updated_ns if query.after else 0,
        "after_id": query.after.task_id if query.after else "",
    }
    return " AND ".join(conditions), values


def count(where: str) -> str:
    return f"SELECT count(*) FROM tasks WHERE {where}"


def select_page(where: str, *, after: bool) -> str:
    position = " AND (updated_ns, id) < (:after_ns, :after_id)" if after else ""
    return f"{_ROW} WHERE {where}{position} ORDER BY updated_ns DESC, id DESC LIMIT :limit"
