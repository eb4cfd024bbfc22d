"""Thread names of conversations and of their set-aside parts; copies and deletes whole threads.

A conversation is one thread. While one of its tasks waits for a person, the conversation may continue. The task's
messages are then moved to a separate thread, and the task resumes there. The sub-agents of a task have threads below
that one.
"""

import hashlib
import sqlite3
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.storage.sqlite.engine.database import Database

_TABLES: Final = {
    "checkpoints": "ns, id, kind, body, metadata_kind, metadata, at",
    "messages": "ns, position, id, kind, body",
    "writes": "ns, checkpoint, task, position, channel, kind, body",
    "calls": "call, state, body",
    "views": "body",
    "archived": "message, at",
    "grants": "tool, key, at",
}


@dataclass(frozen=True, slots=True)
class SideThread:
    """A task with data outside the thread of its conversation."""

    owner: str
    context_id: str
    task_id: str

    @property
    def thread(self) -> str:
        # No part can contain a line break: the server only accepts printable identifiers.
        return f"{self.owner}\n{self.context_id}\n{self.task_id}"

    def delegated(self, call: str) -> str:
        """The thread of a sub-agent of this task, by the tool call that started it."""
        # A provider chooses the ids of calls and may use any characters; a hash contains no line break.
        return f"{self.thread}\n{hashlib.sha256(call.encode()).hexdigest()[:32]}"


def conversation(owner: str, context_id: str) -> str:
    return f"{owner}\n{context_id}"


async def asides(database: Database) -> list[SideThread]:
    """Return every task with a set-aside thread, or with threads of its sub-agents."""

    def read(db: sqlite3.Connection) -> list[SideThread]:
        rows = db.execute("SELECT DISTINCT thread FROM checkpoints").fetchall()
        found = (SideThread(*parts[:3]) for (thread,) in rows if len(parts := thread.split("\n")) >= 3)
        return list(dict.fromkeys(found))

    return await database.run(read)


async def forget(database: Database, aside: SideThread) -> None:
    """Delete the set-aside thread and those of its sub-agents."""
    await database.run(lambda db: delete_below(db, aside.thread))
    database.taken_out()


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
    """Delete the conversation and everything that was set aside from it."""
    delete_below(db, conversation(owner, context_id))


def delete_owner(db: sqlite3.Connection, owner: str) -> None:
    delete_below(db, owner)


def delete_below(db: sqlite3.Connection, name: str) -> None:
    """Delete the thread of that name and the threads below it."""
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE {BELOW}", below(name))  # noqa: S608 - interpolates only constants


BELOW: Final = "(thread = :name OR (thread >= :first AND thread < :behind))"


def below(name: str) -> dict[str, str]:
    """The parameters of `BELOW`, which matches the thread of that name and the threads below it."""
    return {"name": name, "first": f"{name}\n", "behind": f"{name}\x0b"}
