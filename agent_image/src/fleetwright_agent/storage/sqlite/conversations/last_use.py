"""Lists conversations by last use, and selects those whose retention time has ended.

The selection is pure. This module does not know which conversations are in use; the caller passes them.
"""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database


@dataclass(frozen=True, slots=True)
class ConversationUse:
    owner: str
    context_id: str
    used: float
    """Seconds since the epoch. If parts are set aside for a task, the latest use of any part."""

    @property
    def place(self) -> "Place":
        return self.owner, self.context_id


Place = tuple[str, str]
"""Owner and context."""


async def conversations(database: Database, owner: str = "") -> list[ConversationUse]:
    """Return all conversations, or those of one owner; the least recently used first."""
    condition = f" WHERE {threads.BELOW}" if owner else ""
    query = f"SELECT thread, at FROM checkpoints{condition}"  # noqa: S608 - interpolates only constants
    rows = await database.run(lambda db: db.execute(query, threads.below(owner)).fetchall())
    used: dict[Place, float] = {}
    for thread, at in rows:
        of, context_id = thread.split("\n")[:2]
        used[of, context_id] = max(at, used.get((of, context_id), 0.0))
    return sorted((ConversationUse(*place, at) for place, at in used.items()), key=lambda each: each.used)


def idle(oldest_first: Iterable[ConversationUse], *, before: float, busy: Collection[Place]) -> list[Place]:
    """Return the conversations that were not used since that time and are not busy."""
    return [each.place for each in oldest_first if each.used < before and each.place not in busy]


def beyond(oldest_first: Collection[ConversationUse], *, most: int, busy: Collection[Place]) -> list[Place]:
    """Return the oldest conversations of each owner that has more than `most`."""
    over = Counter(each.owner for each in oldest_first)
    found: list[Place] = []
    for each in oldest_first:
        if over[each.owner] > most and each.place not in busy:
            over[each.owner] -= 1
            found.append(each.place)
    return found


async def forget(database: Database, places: Collection[Place]) -> None:
    """Delete conversations with their views, archives, journals and set-aside parts."""

    def write(db: sqlite3.Connection) -> None:
        for owner, context_id in places:
            threads.delete_conversation(db, owner, context_id)

    await database.run(write)
    database.taken_out()
