"""One SQLite file with one writer thread, for what an agent remembers.

Calls run on the thread in the order they were made, so a reader sees every write made before it. Refuses
to guess about a file it cannot read: that is the caller's to report.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


class Database:
    """Durable at every commit: a power cut loses nothing that was committed."""

    def __init__(self, path: Path, schema: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"sqlite-{path.stem}")
        self._connection = self._thread.submit(_open, path, schema).result()

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Runs `work` in a transaction on the writer thread; an exception rolls it back."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._connection:
            return work(self._connection)

    async def aclose(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
        self._thread.shutdown(wait=False)


def _open(path: Path, schema: str) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.executescript(schema)
    return connection
