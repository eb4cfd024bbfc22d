"""Opening of the task log's SQLite file: durable settings, schema migrations, and the handling of damage.

A file from a newer version is rejected. A damaged file is renamed and kept as evidence, and never silently replaced.
While the evidence exists, the log does not open, because a lost history must not look like an empty history.
"""

import sqlite3
import time
from pathlib import Path

from a2a.types.a2a_pb2 import Task
from google.protobuf.message import DecodeError

from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.engine.database import use_write_ahead_log
from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch
from fleetwright_agent.storage.sqlite.tasks import dedup_keys, delegations
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks import unreadable as damaged
from fleetwright_agent.storage.sqlite.tasks.statements import INDEX_WAITING

TASKS = """
CREATE TABLE tasks (
  n INTEGER PRIMARY KEY,
  owner TEXT NOT NULL,
  id TEXT NOT NULL,
  context_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  state INTEGER NOT NULL,
  busy INTEGER NOT NULL,
  updated_ns INTEGER NOT NULL,
  snapshot_seq INTEGER NOT NULL,
  snapshot BLOB NOT NULL,
  UNIQUE (owner, id)
);
CREATE INDEX tasks_by_time ON tasks (owner, updated_ns, id);
CREATE INDEX tasks_busy ON tasks (n) WHERE busy = 1;
CREATE TABLE events (
  n INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at_ns INTEGER NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (n, seq)
) WITHOUT ROWID;
CREATE TABLE claims (
  owner TEXT NOT NULL,
  message_id TEXT NOT NULL,
  digest BLOB NOT NULL,
  n INTEGER NOT NULL,
  PRIMARY KEY (owner, message_id, digest)
) WITHOUT ROWID;
CREATE INDEX claims_by_task ON claims (n);
"""
_NUMBERS = """
CREATE TABLE numbers (last INTEGER NOT NULL);
INSERT INTO numbers SELECT coalesce(max(n), 0) FROM tasks;
"""
"""The highest task number so far. Other tables refer to tasks by number, so numbers of deleted tasks are not reused."""
_EXPIRY = """
ALTER TABLE tasks ADD COLUMN expires_ns INTEGER;
UPDATE tasks SET expires_ns = expires_of(snapshot);
CREATE INDEX tasks_by_expiry ON tasks (expires_ns) WHERE expires_ns IS NOT NULL;
DROP INDEX IF EXISTS paused_by_time;
"""
"""A column with the time until which a task may wait. With it, the search for expired tasks loads no snapshots."""
_TAKEN_UP = "ALTER TABLE tasks ADD COLUMN taken_up INTEGER NOT NULL DEFAULT 0;"
"""How often in a row a process took the task over. A task that crashes process after process is ended."""
_BEGAN = """
ALTER TABLE tasks ADD COLUMN began_ns INTEGER;
ALTER TABLE numbers ADD COLUMN alive_ns INTEGER NOT NULL DEFAULT 0;
"""
"""The start of the work, and the last heartbeat of the process. With both, time limits hold across restarts."""
_EPOCH = "ALTER TABLE tasks ADD COLUMN epoch INTEGER NOT NULL DEFAULT 1;"
"""The epoch of the process that owns a busy task. A process with an older epoch can no longer write the task."""
_KEPT_BY_THE_FILE = """
CREATE TRIGGER task_numbered AFTER INSERT ON tasks BEGIN UPDATE numbers SET last = new.n; END;
CREATE TRIGGER task_rests AFTER UPDATE OF busy ON tasks WHEN new.busy = 0 BEGIN
  DELETE FROM events WHERE n = new.n;
END;
"""
"""When a task ends or starts to wait, its snapshot contains all events, so the events are deleted. A trigger deletes
them within the same statement: each further statement may have to wait for Python's global interpreter lock."""
_QUEUE = "ALTER TABLE tasks ADD COLUMN after_n INTEGER;"
"""For a task that a message has continued: the highest task number at that time, which is its place in the queue."""
_SCHEMAS = (
    TASKS,
    push.SCHEMA,
    _NUMBERS,
    _EXPIRY,
    INDEX_WAITING,
    _TAKEN_UP,
    _BEGAN,
    damaged.SCHEMA,
    push.ONE_CONTENT,
    _KEPT_BY_THE_FILE,
    _EPOCH,
    _QUEUE,
    delegations.SCHEMA,
    dedup_keys.SCHEMA,
    delegations.INDEX_OF_VALID,
)
"""The migration script of each version, in order."""
_VERSION = len(_SCHEMAS)
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_EVIDENCE = ".damaged-"


def open_writer(path: Path, epoch: WriterEpoch | None = None) -> sqlite3.Connection:
    """Open the only connection that writes. It claims the epoch, if there is one.

    Raises:
        TaskLogUnavailable: The text contains the reason and the remedy.
    """
    evidence = sorted(path.parent.glob(f"{path.name}{_EVIDENCE}*"))
    if evidence:
        raise TaskLogUnavailable(_evidence_text(evidence[0]))
    try:
        connection = _connect(path)
        _prepare(connection)
        if epoch is not None:
            epoch.claim_file(connection)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise TaskLogUnavailable(f"the task log {path.name} cannot be opened: {error}") from error
        raise TaskLogUnavailable(_evidence_text(_keep_aside(path))) from error
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the error means that the file is damaged."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads. Raises: TaskLogUnavailable."""
    try:
        connection = _connect(path)
        connection.execute("PRAGMA query_only = 1")
    except sqlite3.Error as error:
        raise TaskLogUnavailable(f"the task log {path.name} cannot be opened: {error}") from error
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # One thread at a time uses a connection, but not necessarily the thread that opened it.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)


def _prepare(connection: sqlite3.Connection) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        connection.close()
        damage = sqlite3.DatabaseError(verdict)
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        connection.close()
        raise TaskLogUnavailable(
            f"the task log was written by a newer version of the runtime (schema {version}, this one knows {_VERSION});"
            " go back to that version or start with an empty memory"
        )
    use_write_ahead_log(connection)
    connection.execute("PRAGMA synchronous = FULL")
    connection.create_function("expires_of", 1, _expires_of, deterministic=True)
    if missing := "".join(_SCHEMAS[version:]):
        connection.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {_VERSION}; COMMIT;")
    for statement in push.FORGET_ORPHANS:
        connection.execute(statement)


def _expires_of(snapshot: bytes) -> int | None:
    try:
        pause = pause_of(Task.FromString(snapshot))
    except DecodeError:
        return None  # Reading the task reports the damage.
    return None if pause is None else pause.expires_ns


def _keep_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    kept = path.with_name(f"{path.name}{_EVIDENCE}{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(kept.with_name(kept.name + suffix))
    return kept


def _evidence_text(kept: Path) -> str:
    return (
        f"the task log is damaged and was kept as {kept.name} in the memory volume;"
        " repair and rename it, or move it away to accept an empty history; the agent then continues by itself"
    )
