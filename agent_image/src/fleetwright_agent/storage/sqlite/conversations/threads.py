"""Copies and deletes whole threads of conversations. All functions run on the writer thread."""

import sqlite3
from typing import Final

from fleetwright_agent.storage.conversations import conversation

_TABLES: Final = {
    "checkpoints": "ns, id, kind, body, metadata_kind, metadata, at",
    "messages": "ns, position, id, kind, body",
    "writes": "ns, checkpoint, task, position, channel, kind, body",
    "calls": "call, state, body",
    "views": "body",
    "archived": "message, at",
    "grants": "tool, key, at",
    "files_read": "path, digest, mtime_ns, number, at",
    "edits": "call, digest, at",
    "todos": "body",
    "titles": "title",
}


def copy(db: sqlite3.Connection, source: str, target: str) -> None:
    """Replace the target with a copy of the source."""
    delete(db, target)
    for table, columns in _TABLES.items():
        insert = f"INSERT INTO {table} (thread, {columns}) SELECT ?, {columns} FROM {table} WHERE thread=?"  # noqa: S608 - interpolates only constants
        db.execute(insert, (target, source))


def delete(db: sqlite3.Connection, thread: str) -> None:
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE thread=?", (thread,))  # noqa: S608 - interpolates only constants


def delete_conversation(db: sqlite3.Connection, owner: str, context_id: str) -> None:
    """Delete the conversation, with the separate threads of its tasks, its delegated tasks and its calls of peers."""
    delete_below(db, conversation(owner, context_id))
    db.execute("DELETE FROM delegated WHERE owner = ? AND context = ?", (owner, context_id))
    db.execute("DELETE FROM peer_calls WHERE owner = ? AND context = ?", (owner, context_id))


def delete_owner(db: sqlite3.Connection, owner: str) -> None:
    delete_below(db, owner)
    db.execute("DELETE FROM delegated WHERE owner = ?", (owner,))
    db.execute("DELETE FROM peer_calls WHERE owner = ?", (owner,))
    db.execute("DELETE FROM forks WHERE owner = ?", (owner,))


def delete_below(db: sqlite3.Connection, name: str) -> None:
    """Delete the thread with this name, and the threads whose names extend this name."""
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE {BELOW}", below(name))  # noqa: S608 - interpolates only constants


BELOW: Final = "(thread = :name OR (thread >= :first AND thread < :behind))"


def below(name: str) -> dict[str, str]:
    """Return the parameters of `BELOW`, which matches the thread with this name and those whose names extend it."""
    return {"name": name, "first": f"{name}\n", "behind": f"{name}\x0b"}
