"""The connection that writes to one SQLite file. The event loop and the writer thread use it alternately.

This module does not decide which of them may use the connection.
"""

import sqlite3
from collections.abc import Callable
from typing import Any

from fleetwright_agent.storage.sqlite.engine.transaction import Transaction, WriteJob, is_of_file
from fleetwright_agent.storage.sqlite.engine.writer_epoch import WriterEpoch


class WriterConnection:
    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        unusable: Callable[[Exception], Exception],
        *,
        opened: sqlite3.Connection | None = None,
        epoch: WriterEpoch | None = None,
    ) -> None:
        """Args:
        connect: Opens a connection in autocommit mode, and claims the epoch. It is called before the first job.
        unusable: Maps an SQLite error to the exception that callers get.
        opened: The connection, if it is already open.
        epoch: The epoch that each transaction compares with that of the file.
        """
        self._connect = connect
        self.unusable = unusable
        self._connection = opened
        self._epoch = epoch or WriterEpoch()
        self._patience_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def transaction(self) -> Transaction:
        """Return a transaction that has not begun."""
        return Transaction(self._opened(), self.unusable, epoch=self._epoch)

    def wait_for_others(self, milliseconds: int) -> None:
        """Set how long SQLite waits for a lock that another process holds."""
        if milliseconds != self._patience_ms:
            self._opened().execute(f"PRAGMA busy_timeout = {milliseconds}")
            self._patience_ms = milliseconds

    def run(self, job: WriteJob[Any], *, patience_ms: int) -> None:
        """Execute a job without beginning a transaction. If the job fails, an open transaction stays intact."""
        try:
            self.wait_for_others(patience_ms)
            job.result = job.work(self._opened())
        except Exception as error:
            job.error = self.unusable(error) if is_of_file(error) else error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection
