"""A circuit breaker, which prevents turns from waiting again and again for a server that does not answer.

After several consecutive failures, the breaker rejects calls for a while. Then it lets one call through. If that call
succeeds, the breaker closes. A server that answers with an error counts as available.
"""

import time
from collections.abc import Callable
from typing import Final

MOST_FAILURES: Final = 3
REST_SECONDS: Final = 15.0


class CircuitBreaker:
    def __init__(
        self,
        *,
        most: int = MOST_FAILURES,
        seconds: float = REST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """Args: `on_change` is called with True when the breaker opens, and with False when it closes."""
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._on_change = on_change
        self._failures = 0
        self._again_at = 0.0

    @property
    def is_open(self) -> bool:
        return self._failures >= self._most

    def rest(self) -> float:
        """Return the seconds until the next attempt; 0 if the caller may make one now.

        While the breaker is open, only one caller at a time gets 0.
        """
        if not self.is_open:
            return 0.0
        left = self._again_at - self._clock()
        if left > 0:
            return left
        self._again_at = self._clock() + self._seconds
        return 0.0

    def succeeded(self) -> None:
        was_open, self._failures = self.is_open, 0
        if was_open:
            self._on_change(False)

    def failed(self) -> None:
        was_open = self.is_open
        self._failures += 1
        if self.is_open:
            self._again_at = self._clock() + self._seconds
            if not was_open:
                self._on_change(True)
