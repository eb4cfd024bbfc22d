"""Concurrency limits per caller. This module never waits for a slot to become free."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from fleetwright_a2a.errors import LimitReached

Release = Callable[[], None]


class ConcurrencyLimit:
    """A limit on the slots that each caller may hold at the same time.

    Args:
        most: The number of slots of each caller.
        sentence: The error text for a caller at the limit; `{most}` is replaced by the limit.
    """

    def __init__(self, most: int, sentence: str) -> None:
        self._most = most
        self._sentence = sentence.format(most=most)
        self._held: Counter[str] = Counter()
        self._taken = 0

    @property
    def taken(self) -> int:
        """The number of slots that all callers hold. Any thread may read it."""
        return self._taken

    def take(self, owner: str, *, beyond: bool = False) -> Release:
        """Take a slot and return the function that releases it, which is idempotent.

        Args:
            beyond: Take a slot even at the limit; it then counts towards the limit of later requests.

        Raises:
            LimitReached: The caller has no free slot.
        """
        if not beyond and self._held[owner] >= self._most:
            raise LimitReached(self._sentence)
        self._held[owner] += 1
        self._taken += 1
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                self._held[owner] -= 1
                self._taken -= 1
                if not self._held[owner]:
                    del self._held[owner]

        return release

    @contextmanager
    def hold(self, owner: str) -> Generator[None, None, None]:
        """Hold a slot for the duration of the context. Raises: LimitReached."""
        release = self.take(owner)
        try:
            yield
        finally:
            release()
