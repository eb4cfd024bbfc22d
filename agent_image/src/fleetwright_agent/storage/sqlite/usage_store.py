"""The cost of model calls in the database of conversations.

Money is kept in picodollars (10⁻¹² US dollars). Every process has its own rows.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import astuple
from decimal import Decimal
from typing import Any, Final

from fleetwright_agent.storage.sqlite import inflight_usage
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.usage import (
    NOBODY,
    DailyUsage,
    HourlyUsage,
    ModelCallUsage,
    TaskUsageLine,
    TotalUsage,
    UsageSum,
)

_log = logging.getLogger(__name__)
_PICO: Final = Decimal(10) ** 12
_HOUR: Final = 3600
_HOURS_OF_DAY: Final = 24


class SqliteUsageStore:
    def __init__(self, database: Database, *, now: Callable[[], float]) -> None:
        """Args: `now` returns the seconds since the epoch."""
        self._database = database
        self._now = now
        self._life: int | None = None

    def put(self, entry: ModelCallUsage, line: TaskUsageLine) -> "asyncio.Future[None]":
        """Queue the cost without waiting for the write. Data that is queued later is written after the cost."""
        at = self._now()

        def write(db: sqlite3.Connection) -> None:
            self._write(db, entry, at)
            inflight_usage.add(db, line.owner, line.task_id, line.stored_body)

        writing = self._database.put(write, of=inflight_usage.name(line.owner, line.task_id))
        writing.add_done_callback(_written)
        return writing

    async def has_charged(self, owner: str, task_id: str, call: str) -> bool:
        """Return whether the stored usage of the task contains the cost of the call.

        Raises:
            MemoryUnusable: The usage cannot be read.
        """
        query = "SELECT body FROM spent WHERE owner=? AND task=?"
        rows = await self._database.read(lambda db: db.execute(query, (owner, task_id)).fetchall())
        return any(json.loads(body).get("call") == call for (body,) in rows)

    async def since(self, seconds: float) -> UsageSum:
        """Return the sum of all processes' usage since the beginning of the hour that contains this time."""
        query = f"SELECT {_SUMS} FROM ledger WHERE hour >= ?"  # noqa: S608 - interpolates only constants
        row = await self._database.run(lambda db: db.execute(query, (int(seconds) // _HOUR,)).fetchone())
        return _sum(row)

    def put_call_sizes(self, body: Any) -> None:
        """Queue the sizes of the known calls, as JSON, without waiting for the write. They replace the stored ones."""
        write = "INSERT OR REPLACE INTO call_sizes (one, body) VALUES (1, ?)"
        writing = self._database.put(lambda db: _run(db, write, json.dumps(body)))
        writing.add_done_callback(_sizes_written)

    async def call_sizes(self) -> Any:
        """Return the stored sizes of the known calls, or None before the first write.

        Raises:
            MemoryUnusable: The sizes cannot be read.
        """
        row = await self._database.read(lambda db: db.execute("SELECT body FROM call_sizes").fetchone())
        return None if row is None else json.loads(row[0])

    def put_task_outcomes(self, body: Any) -> None:
        """Queue the outcomes of the last tasks, as JSON, without waiting for the write. They replace older ones."""
        write = "INSERT OR REPLACE INTO task_outcomes (one, body) VALUES (1, ?)"
        writing = self._database.put(lambda db: _run(db, write, json.dumps(body)))
        writing.add_done_callback(_outcomes_written)

    async def task_outcomes(self) -> Any:
        """Return the stored outcomes of the last tasks, or None before the first write.

        Raises:
            MemoryUnusable: The outcomes cannot be read.
        """
        row = await self._database.read(lambda db: db.execute("SELECT body FROM task_outcomes").fetchone())
        return None if row is None else json.loads(row[0])

    async def of_this_life(self) -> dict[str, UsageSum]:
        """Return the sums of this process by model."""
        query = f"SELECT model, {_SUMS} FROM ledger WHERE life = ? GROUP BY model"  # noqa: S608 - interpolates only constants
        rows = await self._database.run(lambda db: db.execute(query, (self._life,)).fetchall())
        return {row[0]: _sum(row[1:]) for row in rows}

    async def totals(self) -> list[TotalUsage]:
        query = f"SELECT model, purpose, caller, {', '.join(_AMOUNTS)} FROM totals ORDER BY number"  # noqa: S608 - interpolates only constants
        rows = await self._database.read(lambda db: db.execute(query).fetchall())
        return [TotalUsage(model, purpose, caller, _sum(tuple(row))) for model, purpose, caller, *row in rows]

    async def of(self, caller: str) -> list[HourlyUsage]:
        query = f"SELECT hour, model, purpose, {', '.join(_AMOUNTS)} FROM ledger WHERE caller = ? ORDER BY hour, life"  # noqa: S608 - interpolates only constants
        rows = await self._database.read(lambda db: db.execute(query, (caller,)).fetchall())
        return [
            HourlyUsage(float(hour * _HOUR), model, purpose, _sum(tuple(row))) for hour, model, purpose, *row in rows
        ]

    async def daily(self, since: float) -> list[DailyUsage]:
        query = (
            f"SELECT hour / ? AS day, caller, model, purpose, {_SUMS} FROM ledger WHERE hour >= ?"  # noqa: S608 - interpolates only constants
            " GROUP BY day, caller, model, purpose ORDER BY day, caller, model, purpose"
        )
        day = _HOUR * _HOURS_OF_DAY
        values = (_HOURS_OF_DAY, int(since) // day * _HOURS_OF_DAY)
        rows = await self._database.read(lambda db: db.execute(query, values).fetchall())
        return [
            DailyUsage(float(number * day), caller, model, purpose, _sum(tuple(row)))
            for number, caller, model, purpose, *row in rows
        ]

    def _write(self, db: sqlite3.Connection, entry: ModelCallUsage, at: float) -> None:
        if self._life is None:
            self._life = db.execute("INSERT INTO lives (at) VALUES (?)", (at,)).lastrowid
        # Insert again, because the commit of the first insert may have failed.
        db.execute("INSERT OR IGNORE INTO lives (life, at) VALUES (?,?)", (self._life, at))
        *counts, usd = astuple(entry.sum)
        about = (entry.model, entry.purpose, entry.caller, *counts, int(usd * _PICO))
        db.execute(_ADD, (self._life, int(at) // _HOUR, *about))
        db.execute(_ADD_TOTAL, about)


def _written(writing: "asyncio.Future[None]") -> None:
    if error := writing.exception():
        _log.error("the cost of a call could not be stored: %s", error)


def _sizes_written(writing: "asyncio.Future[None]") -> None:
    if error := writing.exception():
        _log.error("the sizes of model calls could not be stored: %s", error)


def _outcomes_written(writing: "asyncio.Future[None]") -> None:
    if error := writing.exception():
        _log.error("the outcomes of tasks could not be stored: %s", error)


def _run(db: sqlite3.Connection, statement: str, *values: str) -> None:
    db.execute(statement, values)


_AMOUNTS: Final = ("calls", "input", "output", "cache_read", "cache_write", "unpriced", "picos")
_SUMS: Final = ", ".join(f"coalesce(sum({each}), 0)" for each in _AMOUNTS)


_COLUMNS: Final = ("life", "hour", "model", "purpose", "caller")
_TOTAL_COLUMNS: Final = ("model", "purpose", "caller")


def _summed(columns: Sequence[str]) -> str:
    """Return the clause that adds the amounts to those of the row with the same columns."""
    amounts = ", ".join(f"{each} = {each} + excluded.{each}" for each in _AMOUNTS)
    return f"ON CONFLICT ({', '.join(columns)}) DO UPDATE SET {amounts}"


def _adding(table: str, columns: Sequence[str]) -> str:
    every = (*columns, *_AMOUNTS)
    places = ", ".join("?" * len(every))
    return f"INSERT INTO {table} ({', '.join(every)}) VALUES ({places}) {_summed(columns)}"  # noqa: S608 - interpolates only constants


_ADD: Final = _adding("ledger", _COLUMNS)
_ADD_TOTAL: Final = _adding("totals", _TOTAL_COLUMNS)


def _sum(row: tuple[int, ...]) -> UsageSum:
    calls, tokens_in, tokens_out, read, written, unpriced, picos = row
    return UsageSum(calls, tokens_in, tokens_out, read, written, unpriced, Decimal(picos) / _PICO)


def disown(db: sqlite3.Connection, caller: str) -> None:
    """Replace the caller's name in its rows; the sums stay."""
    amounts = ", ".join(_AMOUNTS)
    for table, columns in (("ledger", _COLUMNS), ("totals", _TOTAL_COLUMNS)):
        rest = ", ".join(each for each in columns if each != "caller")
        db.execute(
            f"INSERT INTO {table} ({rest}, caller, {amounts})"  # noqa: S608 - interpolates only constants
            f" SELECT {rest}, ?, {amounts} FROM {table} WHERE caller = ? {_summed(columns)}",
            (NOBODY, caller),
        )
        db.execute(f"DELETE FROM {table} WHERE caller = ?", (caller,))  # noqa: S608 - interpolates only constants
