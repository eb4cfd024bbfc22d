"""Where a conversation lies, and what of it is set aside: names of threads, copies and ends of whole ones.

A conversation is one thread. While a task of it waits for a person the conversation may go on; then the task's part
is set aside under a thread of its own, and the task goes on from there. Sub-agents of a task have threads below that.
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
}


@dataclass(frozen=True, slots=True)
class Aside:
    """A task of which something lies apart from its conversation."""

    owner: str
    context_id: str
    task_id: str

    @property
    def thread(self) -> str:
        # No part can hold a line break: identifiers are checked to be printable where they come in.
        return f"{self.owner}\n{self.context_id}\n{self.task_id}"

    def delegated(self, call: str) -> str:
        """Where a sub-agent works for this task, by the call that it works for."""
        # A provider makes up the names of calls: whatever they hold, this is one part.
        return f"{self.thread}\n{hashlib.sha256(call.encode()).hexdigest()[:32]}"


def conversation(owner: str, context_id: str) -> str:
    return f"{owner}\n{context_id}"


async def asides(database: Database) -> list[Aside]:
    """Every task of which something is set aside, or of whose sub-agents something is left."""

    def read(db: sqlite3.Connection) -> list[Aside]:
        rows = db.execute("SELECT DISTINCT thread FROM checkpoints").fetchall()
        found = (Aside(*parts[:3]) for (thread,) in rows if len(parts := thread.split("\n")) >= 3)
        return list(dict.fromkeys(found))

    return await database.run(read)


async def forget(database: Database, aside: Aside) -> None:
    """With all that its sub-agents have left."""
    await database.run(lambda db: delete_below(db, aside.thread))
    database.taken_out()


def copy(db: sqlite3.Connection, source: str, target: str) -> None:
    """The target becomes what the source is now."""
    delete(db, target)
    for table, columns in _TABLES.items():
        insert = f"INSERT INTO {table} (thread, {columns}) SELECT ?, {columns} FROM {table} WHERE thread=?"  # noqa: S608 - names are ours
        db.execute(insert, (target, source))


def delete(db: sqlite3.Connection, thread: str) -> None:
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE thread=?", (thread,))  # noqa: S608 - names are ours


def delete_conversation(db: sqlite3.Connection, owner: str, context_id: str) -> None:
    """With all that was set aside of it."""
    delete_below(db, conversation(owner, context_id))


def delete_owner(db: sqlite3.Connection, owner: str) -> None:
    delete_below(db, owner)


def delete_below(db: sqlite3.Connection, name: str) -> None:
    """The thread of that name, and those whose names go on behind it."""
    for table in _TABLES:
        db.execute(f"DELETE FROM {table} WHERE {BELOW}", below(name))  # noqa: S608 - names are ours


BELOW: Final = "(thread = :name OR (thread >= :first AND thread < :behind))"


def below(name: str) -> dict[str, str]:
    """The values of `BELOW`: the thread of that name, and those whose names go on behind it."""
    return {"name": name, "first": f"{name}\n", "behind": f"{name}\x0b"}
