"""The checkpoints of a turn that are not written yet. Only the newest of them is kept.

A checkpoint contains the state of the checkpoint before it, and only the newest checkpoint is ever read. So only the
newest pending checkpoint is encoded and written. This module does not decide when it is written.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from langgraph.checkpoint.base import WRITES_IDX_MAP, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.serde.base import SerializerProtocol

from fleetwright_agent.storage.sqlite.conversations.message_cache import CachedHistory

MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class CheckpointStep:
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The output of a graph node, stored before its step ends."""

    checkpoint: str
    task: str
    values: Sequence[tuple[str, Any]]


@dataclass(slots=True)
class PendingSteps:
    """The pending steps and writes of one thread."""

    thread: str
    ns: str
    newest: CheckpointStep | None = None
    history: Sequence[Any] | None = None
    """The thread's messages, if the step added any."""
    known: CachedHistory = field(default_factory=CachedHistory)
    """The prefix of `history` that is already stored, unless the thread was deleted meanwhile."""
    size: int = 0
    """The stored size of all messages in bytes, set by `write`."""
    writes: list[Writes] = field(default_factory=list)

    def put(self, step: CheckpointStep, history: Sequence[Any] | None, *, known: CachedHistory) -> None:
        """Replace the pending step. The new step includes the node outputs of earlier steps, which are dropped."""
        self.newest = step
        self.writes = [each for each in self.writes if each.checkpoint >= step.checkpoint["id"]]
        if history is not None:
            self.history, self.known = history, known

    def write(self, db: sqlite3.Connection, serde: SerializerProtocol) -> None:
        if self.history is not None:
            self.size = _extend(db, serde, self.thread, self.ns, self.history, self.known)
        if self.newest is not None:
            self._write(db, serde, self.newest)
        for each in self.writes:
            self._write_of_node(db, serde, each)

    def _write(self, db: sqlite3.Connection, serde: SerializerProtocol, step: CheckpointStep) -> None:
        identity = step.checkpoint["id"]
        values = {name: value for name, value in step.checkpoint["channel_values"].items() if name != MESSAGES}
        body = serde.dumps_typed({**step.checkpoint, "channel_values": values})
        described = serde.dumps_typed(dict(step.metadata))
        row = (self.thread, self.ns, identity, *body, *described, step.at)
        db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?,?,?,?,?,?,?,?)", row)
        place = (self.thread, self.ns, identity)
        db.execute("DELETE FROM writes WHERE thread=? AND ns=? AND checkpoint<?", place)

    def _write_of_node(self, db: sqlite3.Connection, serde: SerializerProtocol, writes: Writes) -> None:
        for index, (channel, value) in enumerate(writes.values):
            position = WRITES_IDX_MAP.get(channel, index)
            # A special write (an error or an interrupt) replaces an earlier write; an ordinary write does not.
            verb = "INSERT OR REPLACE" if position < 0 else "INSERT OR IGNORE"
            row = (self.thread, self.ns, writes.checkpoint, writes.task, position, channel, *serde.dumps_typed(value))
            db.execute(f"{verb} INTO writes VALUES (?,?,?,?,?,?,?,?)", row)


def ends_with(db: sqlite3.Connection, thread: str, ns: str, count: int, identity: str | None) -> bool:
    """Return whether the message with this id is the last of the first `count` stored messages."""
    query = "SELECT id FROM messages WHERE thread=? AND ns=? AND position=?"
    return bool(db.execute(query, (thread, ns, count - 1)).fetchone() == (identity,))


def _extend(
    db: sqlite3.Connection,
    serde: SerializerProtocol,
    thread: str,
    ns: str,
    history: Sequence[Any],
    known: CachedHistory,
) -> int:
    """Store the new messages, and return the stored size of the whole history in bytes."""
    query = "SELECT id, length(body) FROM messages WHERE thread=? AND ns=? AND position>=? ORDER BY position"
    begin, size = len(known.messages), known.size
    if not begin or not ends_with(db, thread, ns, begin, history[begin - 1].id):
        begin, size = 0, 0
    stored: list[tuple[str, int]] = db.execute(query, (thread, ns, begin)).fetchall()
    start = begin + len(stored)
    if [identity for identity, _ in stored] != [message.id for message in history[begin:start]]:
        db.execute("DELETE FROM messages WHERE thread=? AND ns=?", (thread, ns))
        start, size, stored = 0, 0, []
    rows = [(thread, ns, i, history[i].id, *serde.dumps_typed(history[i])) for i in range(start, len(history))]
    db.executemany("INSERT INTO messages VALUES (?,?,?,?,?,?)", rows)
    return size + sum(length for _, length in stored) + sum(len(row[-1]) for row in rows)
