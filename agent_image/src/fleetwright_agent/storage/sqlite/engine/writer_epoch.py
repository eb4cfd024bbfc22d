"""The epoch of the process that writes an SQLite file. A process with an older epoch can no longer write.

The lock of the memory volume already admits one process. The epoch protects the files if a lock is lost, as on a file
system whose server has restarted.
"""

import sqlite3
from typing import Final

_CREATE: Final = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS writer (epoch INTEGER NOT NULL);
INSERT INTO writer SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM writer);
UPDATE writer SET epoch = epoch + 1;
COMMIT;
"""
_SELECT: Final = "SELECT epoch FROM writer"


class EarlierWriterError(sqlite3.DatabaseError):
    """Another process has opened the file as its writer since."""


class WriterEpoch:
    def __init__(self) -> None:
        self._epoch: int | None = None

    def claim_file(self, connection: sqlite3.Connection) -> None:
        """Make this process the only writer of the file. Raises: sqlite3.Error."""
        connection.executescript(_CREATE)
        self._epoch = _read_epoch(connection)

    def check_writer(self, connection: sqlite3.Connection) -> None:
        """Check, in a transaction that has the write lock, that no other process has become the writer.

        Raises:
            EarlierWriterError: Another process has. A process that has claimed no epoch is never refused.
        """
        if self._epoch is not None and _read_epoch(connection) != self._epoch:
            raise EarlierWriterError("another process writes it since; this process must end")


def _read_epoch(connection: sqlite3.Connection) -> int:
    return int(connection.execute(_SELECT).fetchone()[0])
