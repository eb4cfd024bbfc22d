"""The calls with which the agent asked other agents, in the database of conversations."""

import sqlite3
from typing import Any, Final

from fleetwright_agent.storage.open_questions import (
    MOST_ENDED_CALLS,
    MOST_UNFINISHED_CALLS,
    PeerCall,
    PeerCallStatus,
)
from fleetwright_agent.storage.sqlite.engine.database import Database

_COLUMNS: Final = "id, owner, context, task, peer, request, begun, peer_task, status, result, ended"
_BEGIN: Final = (
    f"INSERT INTO peer_calls ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET"  # noqa: S608 - interpolates only constants
    f" task = excluded.task, request = excluded.request, status = excluded.status, result = excluded.result,"
    f" ended = excluded.ended RETURNING {_COLUMNS}"
)
_UPDATE: Final = (
    "UPDATE peer_calls SET task = ?, peer_task = ?, status = ?, result = ?, ended = ? WHERE id = ? AND ended IS NULL"
)
_TRIM_ENDED: Final = (
    "DELETE FROM peer_calls WHERE number IN"
    " (SELECT number FROM peer_calls WHERE ended IS NOT NULL ORDER BY ended DESC, number DESC LIMIT -1 OFFSET ?)"
)
_TRIM_UNFINISHED: Final = (
    "DELETE FROM peer_calls WHERE number IN"
    " (SELECT number FROM peer_calls WHERE ended IS NULL ORDER BY number DESC LIMIT -1 OFFSET ?)"
)
_OF: Final = f"SELECT {_COLUMNS} FROM peer_calls WHERE ? IN ('', owner) AND ? IN ('', context) ORDER BY number DESC"  # noqa: S608 - interpolates only constants
_EXPIRE: Final = "DELETE FROM peer_calls WHERE ended < ?"
_OLDEST: Final = "SELECT min(ended) FROM peer_calls"


class SqlitePeerCalls:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, call: PeerCall) -> PeerCall:
        return await self._database.run(lambda db: _begin(db, call))

    async def update(self, call: PeerCall) -> None:
        await self._database.run(lambda db: _update(db, call))

    async def of(self, owner: str = "", context_id: str = "") -> list[PeerCall]:
        rows = await self._database.read(lambda db: db.execute(_OF, (owner, context_id)).fetchall())
        return [_call(row) for row in rows]

    async def expire(self, before: float) -> None:
        await self._database.run(lambda db: _expire(db, before))

    async def oldest(self) -> float | None:
        oldest: float | None = await self._database.read(lambda db: db.execute(_OLDEST).fetchone()[0])
        return oldest


def _begin(db: sqlite3.Connection, call: PeerCall) -> PeerCall:
    row = (
        *(call.id, call.owner, call.context_id, call.task_id, call.peer, call.request, call.began_at),
        *(call.peer_task_id, call.status.value, call.result, call.ended_at),
    )
    (stored,) = db.execute(_BEGIN, row).fetchall()
    _trim(db)
    return _call(stored)


def _update(db: sqlite3.Connection, call: PeerCall) -> None:
    row = (call.task_id, call.peer_task_id, call.status.value, call.result, call.ended_at, call.id)
    db.execute(_UPDATE, row)
    _trim(db)


def _trim(db: sqlite3.Connection) -> None:
    db.execute(_TRIM_ENDED, (MOST_ENDED_CALLS,))
    db.execute(_TRIM_UNFINISHED, (MOST_UNFINISHED_CALLS,))


def _expire(db: sqlite3.Connection, before: float) -> None:
    db.execute(_EXPIRE, (before,))


def _call(row: tuple[Any, ...]) -> PeerCall:
    call_id, owner, context_id, task, peer, request, begun, peer_task, status, result, ended = row
    state = PeerCallStatus(status)
    return PeerCall(call_id, owner, context_id, task, peer, request, begun, peer_task, state, result, ended)
