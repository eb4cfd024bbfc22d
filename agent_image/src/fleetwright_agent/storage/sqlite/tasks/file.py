"""Opening the task log's SQLite file: durable settings, the schema, and what to do when it cannot be trusted.

Refuses: a file from a newer version; a damaged file, which is kept aside as evidence and never silently replaced:
as long as the evidence lies there, nothing opens, so that a lost history cannot look like an empty one.
"""

import sqlite3
import time
from pathlib import Path

from a2a.types.a2a_pb2 import Task
from google.protobuf.message import DecodeError

from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks import unreadable as damaged
from fleetwright_agent.storage.sqlite.tasks.statements import INDEX_WAITING, TAKE_UP
from fleetwright_agent.storage.task_log import LogUnusable

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
"""What hangs on a task knows it by its number, so a number that was forgotten is never given again."""
_EXPIRY = """
ALTER TABLE tasks ADD COLUMN expires_ns INTEGER;
UPDATE tasks SET expires_ns = expires_of(snapshot);
CREATE INDEX tasks_by_expiry ON tasks (expires_ns) WHERE expires_ns IS NOT NULL;
DROP INDEX IF EXISTS paused_by_time;
"""
"""Until when a task may wait, so that a look at what waits loads no task."""
_TAKEN_UP = "ALTER TABLE tasks ADD COLUMN taken_up INTEGER NOT NULL DEFAULT 0;"
"""By how many processes, so that a task which ends its process does not end every one."""
_BEGAN = """
ALTER TABLE tasks ADD COLUMN began_ns INTEGER;
ALTER TABLE numbers ADD COLUMN alive_ns INTEGER NOT NULL DEFAULT 0;
"""
"""When work began, and until when its process surely lived, so that a time limit holds over restarts."""
_KEPT_BY_THE_FILE = """
CREATE TRIGGER task_numbered AFTER INSERT ON tasks BEGIN UPDATE numbers SET last = new.n; END;
CREATE TRIGGER task_rests AFTER UPDATE OF busy ON tasks WHEN new.busy = 0 BEGIN
  DELETE FROM events WHERE n = new.n;
END;
"""
"""The snapshot of a task at rest says what its events have said. In the statement that puts it to rest: each statement
of its own has the writer wait for the event loop to let go of the interpreter."""
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
)
"""By version: what each added to the one before."""
_VERSION = len(_SCHEMAS)
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_EVIDENCE = ".damaged-"


def open_writer(path: Path, *, now_ns: int) -> sqlite3.Connection:
    """The one connection that writes.

    Raises:
        LogUnusable: The text says why, and the remedy.
    """
    evidence = sorted(path.parent.glob(f"{path.name}{_EVIDENCE}*"))
    if evidence:
        raise LogUnusable(_evidence_text(evidence[0]))
    try:
        connection = _connect(path)
        _prepare(connection, now_ns)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise LogUnusable(f"the task log {path.name} cannot be opened: {error}") from error
        raise LogUnusable(_evidence_text(_keep_aside(path))) from error
    return connection


def is_damage(error: sqlite3.Error) -> bool:
    """Whether it says that the file is not what was written."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def open_reader(path: Path) -> sqlite3.Connection:
    """Raises: LogUnusable."""
    try:
        connection = _connect(path)
        connection.execute("PRAGMA query_only = 1")
    except sqlite3.Error as error:
        raise LogUnusable(f"the task log {path.name} cannot be opened: {error}") from error
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    # Each connection is used by one thread at a time, which is not the thread that opens it.
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5)


def _prepare(connection: sqlite3.Connection, now_ns: int) -> None:
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        connection.close()
        damage = sqlite3.DatabaseError(verdict)
        damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damage
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > _VERSION:
        connection.close()
        raise LogUnusable(
            f"the task log was written by a newer version of the runtime (schema {version}, this one knows {_VERSION});"
            " go back to that version or start with an empty memory"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.create_function("expires_of", 1, _expires_of, deterministic=True)
    if missing := "".join(_SCHEMAS[version:]):
        connection.executescript(f"BEGIN IMMEDIATE; {missing} PRAGMA user_version = {_VERSION}; COMMIT;")
    # Before anything is taken up: whatever ends this process, the next one knows that it was tried.
    for statement in push.FORGET_ORPHANS:
        connection.execute(statement)
    connection.execute(TAKE_UP, {"now": now_ns})


def _expires_of(snapshot: bytes) -> int | None:
    try:
        pause = pause_of(Task.FromString(snapshot))
    except DecodeError:
        return None  # Whoever reads it is told.
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
        " repair and rename it, or move it away to accept an empty history; the agent then goes on by itself"
    )
