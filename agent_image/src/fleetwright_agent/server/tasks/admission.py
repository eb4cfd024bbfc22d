"""Whether a caller's message may be taken in just now: for the memory's room, and for what is being erased.

Refuses: knowing why the memory is full; whoever looks at the volume says that it is.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from fleetwright_agent.server.errors import MemoryFull, Unavailable

_FULL = (
    "The agent's memory is full, so it begins no other task (memory.maxBytes, or the volume itself);"
    " send it again later, or tell whoever runs the agent."
)
_ERASING = "What the agent remembers of this caller is being erased; send it again in a moment."


class Gate:
    def __init__(self) -> None:
        self.full = False
        """Whether there is no room for another task."""
        self._closed: Counter[str] = Counter()

    def admit(self, owner: str, *, begins: bool) -> None:
        """Args: `begins` a task, and does not go on with one.

        Raises:
            MemoryFull: There is no room for another task.
            Unavailable: The owner's memory is being erased.
        """
        if self._closed[owner]:
            raise Unavailable(_ERASING)
        if begins and self.full:
            raise MemoryFull(_FULL)

    @contextmanager
    def closed(self, owner: str) -> Iterator[None]:
        """Takes nothing in for that owner."""
        self._closed[owner] += 1
        try:
            yield
        finally:
            self._closed[owner] -= 1
            self._closed = +self._closed  # Nothing is kept of who is let in again.
