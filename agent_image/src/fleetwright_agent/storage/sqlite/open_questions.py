"""The open questions of peers in the database of conversations."""

import sqlite3
from typing import Final

from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.storage.sqlite.engine.database import Database

_PUT: Final = "INSERT OR REPLACE INTO questions (owner, context, peer, task, asked_in) VALUES (?,?,?,?,?)"
_ALL: Final = "SELECT owner, context, peer, task, asked_in FROM questions"
_TAKE: Final = (
    "DELETE FROM questions WHERE owner=? AND context=? AND peer=? RETURNING owner, context, peer, task, asked_in"
)


class SqliteOpenQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, question: OpenQuestion) -> None:
        """Store a question. It replaces the open question of the same peer and conversation."""
        place = question.place
        row = (place.owner, place.context_id, place.peer, question.task_id, question.asked_in)
        await self._database.run(lambda db: _put(db, row))

    async def take(self, place: QuestionKey) -> OpenQuestion | None:
        """Remove and return the question with this key."""
        found = await self._select(_TAKE, (place.owner, place.context_id, place.peer))
        return found[0] if found else None

    async def of(self, owner: str, task_id: str) -> list[OpenQuestion]:
        """Return the questions that peers asked during a task of this agent."""
        return await self._select(f"{_ALL} WHERE owner=? AND asked_in=?", (owner, task_id))

    async def all(self) -> list[OpenQuestion]:
        """Return all questions, the oldest first."""
        return await self._select(f"{_ALL} ORDER BY rowid", ())

    async def _select(self, statement: str, values: tuple[str, ...]) -> list[OpenQuestion]:
        rows = await self._database.run(lambda db: db.execute(statement, values).fetchall())
        return [
            OpenQuestion(QuestionKey(owner, context, peer), task, asked_in)
            for owner, context, peer, task, asked_in in rows
        ]


def _put(db: sqlite3.Connection, row: tuple[str, ...]) -> None:
    db.execute(_PUT, row)
