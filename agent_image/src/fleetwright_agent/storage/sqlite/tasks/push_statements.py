"""The tables and statements of push notifications in the task log's file. Values from callers are always bound."""

# ruff: noqa: S608 - statements are built from constants of this file and the numbers of an enumeration

from typing import Final

from fleetwright_agent.storage.sqlite.tasks.statements import ENDED

SCHEMA: Final = """
CREATE TABLE push_configs (
  n INTEGER NOT NULL,
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  host TEXT NOT NULL,
  dialect TEXT NOT NULL,
  sealed BLOB NOT NULL,
  PRIMARY KEY (n, id)
) WITHOUT ROWID;
CREATE TABLE outbox (
  letter INTEGER PRIMARY KEY AUTOINCREMENT,
  n INTEGER NOT NULL,
  config TEXT NOT NULL,
  host TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  due_ns INTEGER,
  dead_ns INTEGER,
  reason TEXT NOT NULL,
  task BLOB
);
CREATE INDEX outbox_due ON outbox (due_ns) WHERE due_ns IS NOT NULL;
CREATE INDEX outbox_dead ON outbox (dead_ns) WHERE dead_ns IS NOT NULL;
CREATE INDEX outbox_by_config ON outbox (n, config, letter);
"""

_GONE = (
    "WHEN old.content IS NOT NULL AND NOT EXISTS (SELECT 1 FROM outbox WHERE n = old.n AND content = old.content)"
    " BEGIN DELETE FROM contents WHERE content = old.content; END"
)
ONE_CONTENT: Final = f"""
CREATE TABLE contents (
  content INTEGER PRIMARY KEY AUTOINCREMENT,
  n INTEGER NOT NULL,
  task BLOB NOT NULL
);
CREATE INDEX contents_by_task ON contents (n);
ALTER TABLE outbox ADD COLUMN content INTEGER;
INSERT INTO contents (content, n, task) SELECT letter, n, task FROM outbox WHERE task IS NOT NULL;
UPDATE outbox SET content = letter WHERE task IS NOT NULL;
ALTER TABLE outbox DROP COLUMN task;
CREATE TRIGGER content_delivered AFTER DELETE ON outbox {_GONE};
CREATE TRIGGER content_given_up AFTER UPDATE OF content ON outbox {_GONE};
"""
"""All notifications about one state of a task share one stored copy of the task, deleted with the last notification."""

_CONFIG = "id, url, host, dialect, sealed"
_INTO_CONTENTS = "INSERT INTO contents (n, task)"
_INTO_OUTBOX = "INSERT INTO outbox (n, config, host, attempts, due_ns, reason, content)"
_SAME = "(SELECT content FROM contents WHERE n = :n AND task = {task})"
_HAS_ENDED = f"busy = 0 AND state IN ({ENDED})"
POST: Final = (
    f"{_INTO_CONTENTS} SELECT :n, :task WHERE NOT EXISTS {_SAME.format(task=':task')}",
    f"{_INTO_OUTBOX} SELECT n, id, host, 0, :at, '', {_SAME.format(task=':task')} FROM push_configs WHERE n = :n",
)
POST_LATE: Final = (
    (
        f"{_INTO_CONTENTS} SELECT n, snapshot FROM tasks WHERE n = :n AND {_HAS_ENDED}"
        f" AND NOT EXISTS {_SAME.format(task='snapshot')}"
    ),
    (
        f"{_INTO_OUTBOX} SELECT n, push_configs.id, host, 0, :at, '', {_SAME.format(task='snapshot')}"
        f" FROM push_configs JOIN tasks USING (n) WHERE n = :n AND push_configs.id = :config AND {_HAS_ENDED}"
    ),
)
COUNT_OTHERS = "SELECT count(*) FROM push_configs WHERE n = ? AND id != ?"
REGISTER = f"INSERT OR REPLACE INTO push_configs (n, {_CONFIG}) SELECT n, ?, ?, ?, ?, ? FROM tasks WHERE n = ?"
REGISTRATIONS = f"SELECT {_CONFIG} FROM push_configs WHERE n = ? ORDER BY id"
SEALED_OTHERWISE = (
    "SELECT n, tasks.owner, tasks.id, push_configs.id, url, host, dialect, sealed"
    " FROM push_configs JOIN tasks USING (n)"
    " WHERE sealed != x'' AND substr(sealed, 1, length(:mark)) != :mark AND (n, push_configs.id) > (:n, :id)"
    " ORDER BY n, push_configs.id LIMIT :most"
)
RESEAL = "UPDATE push_configs SET sealed = ? WHERE n = ? AND id = ? AND sealed = ?"
REMOVE = "DELETE FROM push_configs WHERE n = ? AND id = ?"
REMOVE_LETTERS = "DELETE FROM outbox WHERE n = ? AND config = ?"
_IS_FIRST = (
    "NOT EXISTS (SELECT 1 FROM outbox AS e"
    " WHERE e.n = o.n AND e.config = o.config AND e.letter < o.letter AND e.due_ns IS NOT NULL)"
)
"""No earlier notification of the same registration is pending."""
LISTENED_TO = "SELECT DISTINCT n FROM push_configs"
DUE = (
    "SELECT letter, owner, attempts, contents.task, c.id, c.url, c.host, c.dialect, c.sealed"
    " FROM outbox AS o JOIN push_configs AS c ON c.n = o.n AND c.id = o.config JOIN tasks AS t ON t.n = o.n"
    " JOIN contents USING (content)"
    " WHERE o.due_ns IS NOT NULL AND (o.due_ns <= :now OR o.due_ns > :far)"
    " AND letter NOT IN (SELECT value FROM json_each(:but))"
    " AND c.host NOT IN (SELECT value FROM json_each(:hosts))"
    " AND t.owner NOT IN (SELECT value FROM json_each(:owners))"
    f" AND {_IS_FIRST}"
    " ORDER BY o.due_ns, letter LIMIT :most"
)
NEXT_DUE = (
    "SELECT min(o.due_ns) FROM outbox AS o"
    f" WHERE o.due_ns IS NOT NULL AND o.letter NOT IN (SELECT value FROM json_each(?)) AND {_IS_FIRST}"
)
COUNT_PENDING = "SELECT count(*) FROM outbox WHERE due_ns IS NOT NULL"
DELIVERED = "DELETE FROM outbox WHERE letter = ?"
PUT_OFF = "UPDATE outbox SET attempts = attempts + 1, due_ns = ? WHERE letter = ?"
GIVE_UP = (
    "UPDATE outbox SET attempts = attempts + 1, due_ns = NULL, content = NULL, reason = ?, dead_ns = ? WHERE letter = ?"
)
COUNT_DEAD = "SELECT count(*) FROM outbox WHERE dead_ns IS NOT NULL"
DEAD = (
    "SELECT tasks.id, host, reason, dead_ns FROM outbox JOIN tasks USING (n)"
    " WHERE dead_ns IS NOT NULL ORDER BY dead_ns DESC LIMIT ?"
)
COUNT_REGISTRATIONS = "SELECT count(*) FROM push_configs WHERE n = ?"
FORGET_TASK = ("DELETE FROM push_configs WHERE n = ?", "DELETE FROM outbox WHERE n = ?")
FORGET_ORPHANS = tuple(
    f"DELETE FROM {table} WHERE n NOT IN (SELECT n FROM tasks)" for table in ("push_configs", "outbox")
)
FORGET_DEAD = "DELETE FROM outbox WHERE dead_ns < ?"
