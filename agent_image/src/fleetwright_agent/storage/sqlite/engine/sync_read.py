"""What is committed of an SQLite file, looked at by the event loop itself.

For looks that take some tens of microseconds: to ask the thread that writes takes five times as long, and it may have
other things to do. It sees what was committed last, waits for nobody, and writes nothing. Refuses: judging whether
that is enough, and opening a file that nobody else has open.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Glance:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None

    def __call__(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Raises: sqlite3.Error, also where it would have to wait."""
        if self._connection is None:
            name = f"{self._path.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(name, uri=True, timeout=0, isolation_level=None, check_same_thread=False)
        return work(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
