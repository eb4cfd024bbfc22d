"""The cost of model calls on disk: sums by hour, model, purpose and caller.

Entries are written in the order of the calls, before data that is stored after them. A reader of a checkpoint therefore
finds the cost of the calls that led to it. The same write adds the cost to its task's usage. Every process has its own
rows, which equal its counters. Amounts are not rounded: money is kept in picodollars (10⁻¹² US dollars).
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from fleetwright_agent.storage.sqlite import inflight_usage
from fleetwright_agent.storage.sqlite.engine.database import Database

_log = logging.getLogger(__name__)
_PICO: Final = Decimal(10) ** 12
_HOUR: Final = 3600


@dataclass(frozen=True, slots=True)
class ModelCallUsage:
    """One model call. `usd` is `None` if the model has no price."""

    model: str
    purpose: str
    caller: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    usd: Decimal | None = None


@dataclass(frozen=True, slots=True)
class TaskUsageLine:
    """The same call in the usage of its task, as JSON."""

    owner: str
    task_id: str
    body: Any
    call: str = ""
    """The identifier of the call, if it was recorded before the call started."""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The sum over many calls; `unpriced` counts those without a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    unpriced: int = 0
    usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class HourlyUsage:
    """The cost of one caller's calls of one model within an hour, for one purpose."""

    hour: float
    """The start of the hour, in seconds since the epoch."""
    model: str
    purpose: str
    sum: UsageSum


class UsageStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        """`now` is in seconds since the epoch."""
        self._database = database
        self._now = now
        self._life: int | None = None

    def put(self, entry: ModelCallUsage, line: TaskUsageLine) -> "asyncio.Future[None]":
        """Queue the write without waiting for it; data stored later is written after it."""
        at = self._now()

        def write(db: sqlite3.Connection) -> None:
            self._write(db, entry, at)
            body = {**line.body, "call": line.call} if line.call else line.body
            inflight_usage.add(db, line.owner, line.task_id, body)

        writing = self._database.put(write, of=inflight_usage.name(line.owner, line.task_id))
        writing.add_done_callback(_written)
        return writing

    async def has_charged(self, owner: str, task_id: str, call: str) -> bool:
        """Return whether the stored usage of that task holds the cost of that call.

        Raises:
            MemoryUnusable: It cannot be read.
        """
        query = "SELECT body FROM spent WHERE owner=? AND task=?"
        rows = await self._database.read(lambda db: db.execute(query, (owner, task_id)).fetchall())
        return any(json.loads(body).get("call") == call for (body,) in rows)

    async def since(self, seconds: float) -> UsageSum:
        """Return the sum over all processes, from the hour that contains this time."""
        query = f"SELECT {_SUMS} FROM ledger WHERE hour >= ?"  # noqa: S608 - interpolates only constants
        row = await self._database.run(lambda db: db.execute(query, (int(seconds) // _HOUR,)).fetchone())
        return _sum(row)

    async def of_this_life(self) -> dict[str, UsageSum]:
        """Return the sums of this process by model."""
        query = f"SELECT model, {_SUMS} FROM ledger WHERE life = ? GROUP BY model"  # noqa: S608 - interpolates only constants
        rows = await self._database.run(lambda db: db.execute(query, (self._life,)).fetchall())
        return {row[0]: _sum(row[1:]) for row in rows}

    def _write(self, db: sqlite3.Connection, entry: ModelCallUsage, at: float) -> None:
        if self._life is None:
            self._life = db.execute("INSERT INTO lives (at) VALUES (?)", (at,)).lastrowid
        # Repeated, because the commit of the first insert may have failed.
        db.execute("INSERT OR IGNORE INTO lives (life, at) VALUES (?,?)", (self._life, at))
        amounts = (
            1,
            entry.input_tokens,
            entry.output_tokens,
            entry.cache_read_tokens,
            entry.cache_write_tokens,
            int(entry.usd is None),
            int((entry.usd or Decimal(0)) * _PICO),
        )
        db.execute(
            _ADD,
            (self._life, int(at) // _HOUR, entry.model, entry.purpose, entry.caller, *amounts),
        )


def _written(writing: "asyncio.Future[None]") -> None:
    if error := writing.exception():
        _log.error("the cost of a call could not be stored: %s", error)


_AMOUNTS: Final = ("calls", "input", "output", "cache_read", "cache_write", "unpriced", "picos")
_SUMS: Final = ", ".join(f"coalesce(sum({each}), 0)" for each in _AMOUNTS)


_COLUMNS: Final = ("life", "hour", "model", "purpose", "caller")
_SUMMED: Final = (
    f"ON CONFLICT ({', '.join(_COLUMNS)})"
    f" DO UPDATE SET {', '.join(f'{each} = {each} + excluded.{each}' for each in _AMOUNTS)}"
)
_ADD: Final = (
    f"INSERT INTO ledger ({', '.join((*_COLUMNS, *_AMOUNTS))})"  # noqa: S608 - interpolates only constants
    f" VALUES ({', '.join('?' * len((*_COLUMNS, *_AMOUNTS)))}) {_SUMMED}"
)


def _sum(row: tuple[int, ...]) -> UsageSum:
    calls, tokens_in, tokens_out, read, written, unpriced, picos = row
    return UsageSum(calls, tokens_in, tokens_out, read, written, unpriced, Decimal(picos) / _PICO)


async def costs_of(database: Database, caller: str) -> list[HourlyUsage]:
    """Return the stored rows, the oldest first; each process has its own."""
    query = f"SELECT hour, model, purpose, {', '.join(_AMOUNTS)} FROM ledger WHERE caller = ? ORDER BY hour, life"  # noqa: S608 - interpolates only constants
    rows = await database.read(lambda db: db.execute(query, (caller,)).fetchall())
    return [HourlyUsage(float(hour * _HOUR), model, purpose, _sum(tuple(row))) for hour, model, purpose, *row in rows]


NOBODY: Final = "(erased)"


def disown(db: sqlite3.Connection, caller: str) -> None:
    """Replace the caller's name in its rows; the sums stay."""
    rest = "life, hour, model, purpose"
    amounts = ", ".join(_AMOUNTS)
    move = f"INSERT INTO ledger ({rest}, caller, {amounts}) SELECT {rest}, ?, {amounts} FROM ledger WHERE caller = ?"  # noqa: S608 - interpolates only constants
    db.execute(f"{move} {_SUMMED}", (NOBODY, caller))
    db.execute("DELETE FROM ledger WHERE caller = ?", (caller,))
