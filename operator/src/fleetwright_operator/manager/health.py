"""The data behind the liveness and readiness probes: the last request to the API server and the last complete list.

A restart helps a process that hangs. A restart does not help while the API server is unreachable; it would only delay
the process.
"""

from collections.abc import Callable

_HANGING_SECONDS = 60
"""A request ends within its timeout, and the next one follows after a few seconds."""


class ProcessHealth:
    def __init__(self, *, clock: Callable[[], float], resync_seconds: float) -> None:
        self._clock = clock
        self._patience = 3 * resync_seconds + 60
        self._last_request = clock()
        self._last_list: float | None = None
        self.leading = False

    def set_leading(self, leading: bool) -> None:
        """Set whether the process leads. Earlier lists no longer count."""
        self.leading = leading
        self._last_list = None

    def record_request(self) -> None:
        """Record that a request for the Lease, or an earlier one, has ended, successfully or not."""
        self._last_request = self._clock()

    def record_list(self) -> None:
        """Record that every list of a resync succeeded."""
        self._last_list = self._clock()

    def liveness_failure(self) -> str:
        """Return why the process should be restarted; empty if it should not."""
        if (age := self._clock() - self._last_request) > _HANGING_SECONDS:
            return f"the Lease was last asked for {age:.0f} seconds ago"
        return ""

    def readiness_failure(self) -> str:
        """Return why the process is not ready; empty if it is. A process that waits for the Lease is ready."""
        if self.leading and self._last_list is None:
            return "the first list is not complete"
        if self.leading and self._last_list is not None and (age := self._clock() - self._last_list) > self._patience:
            return f"the last complete list is {age:.0f} seconds old"
        return self.liveness_failure()
