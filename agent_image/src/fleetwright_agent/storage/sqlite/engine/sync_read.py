"""Short reads of an SQLite file on the event loop itself.

A read of some tens of microseconds takes five times as long through the writer thread, which may also be busy. A read
on the event loop sees the latest commit, waits for no lock, and writes nothing. The caller decides whether committed
data is recent enough. This module does not open a file that no writer has opened.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class SyncReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def __call__(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run the read and return its result. Raises: sqlite3.Error, also if the file is locked."""
        if self._connection is None:
            name = f"{self._path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(name, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        return work(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
