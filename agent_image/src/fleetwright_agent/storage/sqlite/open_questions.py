"""The open questions of peers, and the tasks delegated to them, in the database of conversations."""

import sqlite3
from typing import Final

from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, QuestionKey
from fleetwright_agent.storage.sqlite.engine.database import Database

_PUT: Final = "INSERT OR REPLACE INTO questions (owner, context, peer, task, asked_in) VALUES (?,?,?,?,?)"
_ALL: Final = "SELECT owner, context, peer, task, asked_in FROM questions"
_TAKE: Final = (
    "DELETE FROM questions WHERE owner=? AND context=? AND peer=? RETURNING owner, context, peer, task, asked_in"
)
_REMOVE: Final = (
    "DELETE FROM questions WHERE owner=? AND context=? AND peer=? AND task=? AND asked_in=?"
    " RETURNING owner, context, peer, task, asked_in"
)


class SqliteOpenQuestions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, question: OpenQuestion) -> None:
        """Store a question. It replaces the open question of the same peer and conversation."""
        await self._database.run(lambda db: _put(db, _row(question)))

    async def take(self, place: QuestionKey) -> OpenQuestion | None:
        """Remove and return the question with this key."""
        found = await self._select(_TAKE, (place.owner, place.context_id, place.peer))
        return found[0] if found else None

    async def remove(self, question: OpenQuestion) -> bool:
        """Remove exactly this question. Return False if it is not stored, or another one with the same key is."""
        return bool(await self._select(_REMOVE, _row(question)))

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


def _row(question: OpenQuestion) -> tuple[str, ...]:
    place = question.place
    return (place.owner, place.context_id, place.peer, question.task_id, question.asked_in)


def _put(db: sqlite3.Connection, row: tuple[str, ...]) -> None:
    db.execute(_PUT, row)


_DELEGATE: Final = "INSERT OR IGNORE INTO delegated (owner, context, peer, task) VALUES (?,?,?,?)"
_DELEGATED_OF: Final = "SELECT owner, context, peer, task FROM delegated WHERE owner=? AND context=? ORDER BY rowid"
_DELIVERED: Final = "DELETE FROM delegated WHERE owner=? AND context=? AND peer=? AND task=?"


class SqliteDelegatedTasks:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, task: DelegatedTask) -> None:
        """Store a task. Storing it again has no effect."""
        await self._write(_DELEGATE, task)

    async def of(self, owner: str, context_id: str) -> list[DelegatedTask]:
        """Return the tasks of a conversation, the oldest first."""
        rows = await self._database.run(lambda db: db.execute(_DELEGATED_OF, (owner, context_id)).fetchall())
        return [DelegatedTask(*row) for row in rows]

    async def remove(self, task: DelegatedTask) -> None:
        """Remove a task whose result the conversation has received. Removing it again has no effect."""
        await self._write(_DELIVERED, task)

    async def _write(self, statement: str, task: DelegatedTask) -> None:
        values = (task.owner, task.context_id, task.peer, task.task_id)

        def write(db: sqlite3.Connection) -> None:
            db.execute(statement, values)

        await self._database.run(write)
