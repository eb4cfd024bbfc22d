"""How much of something each caller may have at once. Refuses: waiting for it to become free."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager

from fleetwright_agent.server.errors import LimitReached

Release = Callable[[], None]


class Shares:
    """Args: `sentence` says to a caller what it has too much of, `{most}` being how much it may have."""

    def __init__(self, most: int, sentence: str) -> None:
        self._most = most
        self._sentence = sentence.format(most=most)
        self._held: Counter[str] = Counter()

    def take(self, owner: str, *, beyond: bool = False) -> Release:
        """One more, until it is released; releasing twice releases once.

        Args:
            beyond: Also where the caller has as many as it may, which then counts against what comes after.

        Raises:
            LimitReached: The caller has as many as it may.
        """
        if not beyond and self._held[owner] >= self._most:
            raise LimitReached(self._sentence)
        self._held[owner] += 1
        held = True

        def release() -> None:
            nonlocal held
            if held:
                held = False
                self._held[owner] -= 1
                if not self._held[owner]:
                    del self._held[owner]

        return release

    @contextmanager
    def hold(self, owner: str) -> Generator[None, None, None]:
        """Raises: LimitReached."""
        release = self.take(owner)
        try:
            yield
        finally:
            release()
