"""What peers ask and nobody has answered yet, kept so that a restart neither loses an answer nor leaves a peer waiting.

Refuses: knowing peers.
"""

import sqlite3
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.storage.sqlite.engine.database import Database

_PUT: Final = "INSERT OR REPLACE INTO questions (owner, context, peer, task, asked_in) VALUES (?,?,?,?,?)"
_ALL: Final = "SELECT owner, context, peer, task, asked_in FROM questions"
_TAKE: Final = (
    "DELETE FROM questions WHERE owner=? AND context=? AND peer=? RETURNING owner, context, peer, task, asked_in"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer may have one question open."""

    owner: str
    context_id: str
    peer: str
    """`<namespace>/<name>`"""


@dataclass(frozen=True, slots=True)
class Question:
    place: Place
    task_id: str
    """The peer's."""
    asked_in: str
    """The task of this agent's caller."""


class OpenQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, question: Question) -> None:
        """In the place of the one that is there, if there is one."""
        place = question.place
        row = (place.owner, place.context_id, place.peer, question.task_id, question.asked_in)
        await self._database.run(lambda db: _put(db, row))

    async def take(self, place: Place) -> Question | None:
        """The one that was there; it is no longer."""
        found = await self._select(_TAKE, (place.owner, place.context_id, place.peer))
        return found[0] if found else None

    async def of(self, owner: str, task_id: str) -> list[Question]:
        """Those that were asked in a task."""
        return await self._select(f"{_ALL} WHERE owner=? AND asked_in=?", (owner, task_id))

    async def all(self) -> list[Question]:
        """The oldest first."""
        return await self._select(f"{_ALL} ORDER BY rowid", ())

    async def _select(self, statement: str, values: tuple[str, ...]) -> list[Question]:
        rows = await self._database.run(lambda db: db.execute(statement, values).fetchall())
        return [Question(Place(owner, context, peer), task, asked_in) for owner, context, peer, task, asked_in in rows]


def _put(db: sqlite3.Connection, row: tuple[str, ...]) -> None:
    db.execute(_PUT, row)
