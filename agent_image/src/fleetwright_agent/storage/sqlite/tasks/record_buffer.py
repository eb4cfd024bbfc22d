"""A buffer that holds records for a moment, so that they share one group commit.

With the buffer, a short task needs no commit between its acceptance and its end. This module does not write the file.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from a2a.types.a2a_pb2 import TaskArtifactUpdateEvent

from fleetwright_agent.storage.tasks.records import EventRecord, Ownership

_TEXT_SECONDS: Final = 0.1
_STATE_SECONDS: Final = 0.02


@dataclass(slots=True)
class BufferedRecords:
    records: list[tuple[Ownership, EventRecord]] = field(default_factory=list)
    begun: list[tuple[int, Ownership]] = field(default_factory=list)
    """The start times of the work on tasks, with the tasks."""

    def __bool__(self) -> bool:
        return bool(self.records or self.begun)

    def take(self, n: int) -> "BufferedRecords":
        """Remove and return the records of one task."""
        taken = BufferedRecords(
            [each for each in self.records if each[0].n == n], [each for each in self.begun if each[1].n == n]
        )
        if taken.records:
            self.records = [each for each in self.records if each[0].n != n]
        if taken.begun:
            self.begun = [each for each in self.begun if each[1].n != n]
        return taken


class RecordBuffer:
    def __init__(self, write: Callable[[BufferedRecords], None]) -> None:
        """Args: `write` writes the records after a moment, or when the buffer is flushed."""
        self._write = write
        self._buffered = BufferedRecords()
        self._timer: asyncio.TimerHandle | None = None

    def append(self, run: Ownership, record: EventRecord) -> None:
        self._buffered.records.append((run, record))
        self._write_within(_TEXT_SECONDS if isinstance(record.event, TaskArtifactUpdateEvent) else _STATE_SECONDS)

    def began(self, run: Ownership, at_ns: int) -> None:
        self._buffered.begun.append((at_ns, run))
        self._write_within(_STATE_SECONDS)

    def take(self, n: int) -> BufferedRecords:
        """Remove and return the records of one task."""
        return self._buffered.take(n)

    def flush(self) -> None:
        """Write all records now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        buffered, self._buffered = self._buffered, BufferedRecords()
        if buffered:
            self._write(buffered)

    def _write_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._timer.when() <= loop.time() + seconds:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(seconds, self.flush)
