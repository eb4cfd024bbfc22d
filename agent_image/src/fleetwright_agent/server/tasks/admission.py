"""Admission of messages: rejects new tasks while the memory is full, and all messages of an owner during an erasure.

This module does not measure the memory volume. `Retention` sets `full`.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fleetwright_a2a.errors import MemoryFull, ServiceUnavailable

_FULL = (
    "The agent's memory is full, so it begins no other task (memory.maxBytes, or the volume itself);"
    " send the message again later, or contact the people who run the agent."
)
_ERASING = "The agent's memory of this caller is being erased; send the message again in a moment."


class Admission:
    def __init__(self) -> None:
        self.full = False
        """True if there is no space for another task."""
        self._closed: Counter[str] = Counter()

    def admit(self, owner: str, *, begins: bool) -> None:
        """Check whether a message may be accepted now.

        Args:
            begins: True if the message begins a task.

        Raises:
            MemoryFull: There is no space for another task.
            ServiceUnavailable: The owner's memory is being erased.
        """
        if self._closed[owner]:
            raise ServiceUnavailable(_ERASING)
        if begins and self.full:
            raise MemoryFull(_FULL)

    @contextmanager
    def closed(self, owner: str) -> Iterator[None]:
        """Reject messages of this owner for the duration of the context."""
        self._closed[owner] += 1
        try:
            yield
        finally:
            self._closed[owner] -= 1
            self._closed = +self._closed  # Drops the counters that are zero.
