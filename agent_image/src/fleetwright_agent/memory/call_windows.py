"""When the tools that have a limit were called: windows that slide, and outlive the process."""

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fleetwright_agent.memory.database import Database


@dataclass(frozen=True, slots=True)
class Window:
    """At most `most` calls within `seconds`, of what `key` names."""

    key: str
    most: int
    seconds: int


class CallWindows:
    def __init__(self, database: Database, *, now_ns: Callable[[], int]) -> None:
        self._database = database
        self._now_ns = now_ns

    async def admit(self, windows: Sequence[Window]) -> tuple[Window, float] | None:
        """Counts a call in all of them, or in none: then the first that is full, and the seconds until it has room."""
        now = self._now_ns()
        return await self._database.run(lambda db: _admit(db, windows, now))


def _admit(db: sqlite3.Connection, windows: Sequence[Window], now: int) -> tuple[Window, float] | None:
    for window in windows:
        wait = _wait(db, window, now)
        if wait is not None:
            return window, wait
    db.executemany("INSERT INTO call_times (key, at) VALUES (?,?)", [(key, now) for key in {w.key for w in windows}])
    return None


def _wait(db: sqlite3.Connection, window: Window, now: int) -> float | None:
    span = window.seconds * 1_000_000_000
    # A clock that was set back must not shut a tool for as long as it went back.
    db.execute("DELETE FROM call_times WHERE key=? AND (at<=? OR at>?)", (window.key, now - span, now))
    count, oldest = db.execute("SELECT count(*), min(at) FROM call_times WHERE key=?", (window.key,)).fetchone()
    return max(0.0, float(oldest + span - now) / 1e9) if count >= window.most else None
