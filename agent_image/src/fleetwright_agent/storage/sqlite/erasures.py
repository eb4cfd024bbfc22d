"""The record of running and finished erasures in the database of conversations."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_agent.storage.erasures import ErasureTarget, PendingErasure
from fleetwright_agent.storage.sqlite.engine.database import Database


class SqliteErasures:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, target: ErasureTarget, *, asked_by: str, at: float) -> PendingErasure:
        insert = "INSERT INTO erasures (owner, context, asked_by, begun) VALUES (?,?,?,?) RETURNING number"
        values = (target.owner, target.context_id, asked_by, at)
        number = await self._database.run(lambda db: db.execute(insert, values).fetchone()[0])
        return PendingErasure(number, target, asked_by, at, {})

    async def counted(self, begun: PendingErasure, found: Mapping[str, int], forks: Sequence[str] = ()) -> None:
        def write(db: sqlite3.Connection) -> None:
            query = "SELECT coalesce(forks, '[]') FROM erasures WHERE number = ?"
            known = json.loads(db.execute(query, (begun.number,)).fetchone()[0])
            values = (json.dumps(found), json.dumps(sorted({*known, *forks})), begun.number)
            db.execute("UPDATE erasures SET found = ?, forks = ? WHERE number = ?", values)

        await self._database.run(write)

    async def finish(self, begun: PendingErasure, receipt: Mapping[str, Any]) -> None:
        values = (json.dumps(receipt), begun.number)
        update = "UPDATE erasures SET receipt = ? WHERE number = ?"
        await self._database.run(lambda db: _execute(db, update, values))

    async def unfinished(self) -> list[PendingErasure]:
        """Return the erasures without a receipt, in the order of their start."""
        query = (
            "SELECT number, owner, context, asked_by, begun, coalesce(found, '{}'), coalesce(forks, '[]')"
            " FROM erasures WHERE receipt IS NULL ORDER BY number"
        )
        rows = await self._database.run(lambda db: db.execute(query).fetchall())
        return [
            PendingErasure(n, ErasureTarget(owner, context), by, at, json.loads(found), tuple(json.loads(forks)))
            for n, owner, context, by, at, found, forks in rows
        ]

    async def last(self, target: ErasureTarget) -> dict[str, Any] | None:
        """Return the newest receipt for the target."""
        query = (
            "SELECT receipt FROM erasures WHERE owner = ? AND context = ? AND receipt IS NOT NULL"
            " ORDER BY number DESC LIMIT 1"
        )
        values = (target.owner, target.context_id)
        row = await self._database.run(lambda db: db.execute(query, values).fetchone())
        receipt: dict[str, Any] | None = json.loads(row[0]) if row else None
        return receipt


def _execute(db: sqlite3.Connection, statement: str, values: tuple[object, ...]) -> None:
    db.execute(statement, values)
