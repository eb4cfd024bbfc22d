"""The sliding windows of rate-limited tools in the database of conversations."""

import sqlite3
from collections.abc import Callable, Sequence

from fleetwright_agent.storage.call_windows import CallLimitWindow
from fleetwright_agent.storage.sqlite.engine.database import Database


class SqliteCallWindows:
    def __init__(self, database: Database, *, now_ns: Callable[[], int]) -> None:
        self._database = database
        self._now_ns = now_ns

    async def admit(self, windows: Sequence[CallLimitWindow]) -> tuple[CallLimitWindow, float] | None:
        """Count a call in all windows, or in none. Return the first full window and the seconds until it has room."""
        now = self._now_ns()
        return await self._database.run(lambda db: _admit(db, windows, now))


def _admit(
    db: sqlite3.Connection, windows: Sequence[CallLimitWindow], now: int
) -> tuple[CallLimitWindow, float] | None:
    longest = {window.key: window for window in sorted(windows, key=lambda each: each.seconds)}
    for window in longest.values():
        # After the clock was set back, calls in the future must not block a tool.
        begins = now - _span(window)
        db.execute("DELETE FROM call_times WHERE key=? AND (at<=? OR at>?)", (window.key, begins, now))
    for window in windows:
        wait = _wait(db, window, now)
        if wait is not None:
            return window, wait
    db.executemany("INSERT INTO call_times (key, at) VALUES (?,?)", [(key, now) for key in longest])
    return None


def _wait(db: sqlite3.Connection, window: CallLimitWindow, now: int) -> float | None:
    """Return the seconds until the oldest counted call leaves the window; `None` if the window has room."""
    query = "SELECT at FROM call_times WHERE key=? AND at>? ORDER BY at DESC LIMIT 1 OFFSET ?"
    found = db.execute(query, (window.key, now - _span(window), window.most - 1)).fetchone()
    return None if found is None else (found[0] + _span(window) - now) / 1e9


def _span(window: CallLimitWindow) -> int:
    return window.seconds * 1_000_000_000
