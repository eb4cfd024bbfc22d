"""Signs of life, for probes: when the API server was last asked, whatever came of it, and when all was last listed.

A restart helps a process that hangs. It does not help one whose API server is away, which would only begin later and
later.
"""

from collections.abc import Callable

_HANGING_SECONDS = 60
"""An attempt ends within a request's time and is followed by the next after a few seconds."""


class Vitals:
    def __init__(self, *, clock: Callable[[], float], resync_seconds: float) -> None:
        self._clock = clock
        self._patience = 3 * resync_seconds + 60
        self._asked = clock()
        self._listed: float | None = None
        self.leading = False

    def lead(self, leading: bool) -> None:
        """Whether it leads from now on; what was listed before counts no more."""
        self.leading = leading
        self._listed = None

    def asked(self) -> None:
        """An attempt at the Lease, or at what comes before it, has ended: done, refused, or without an answer."""
        self._asked = self._clock()

    def listed(self) -> None:
        """Every list of a resync succeeded."""
        self._listed = self._clock()

    def ailment(self) -> str:
        """Why the process should be restarted; empty while it should not."""
        if (age := self._clock() - self._asked) > _HANGING_SECONDS:
            return f"the Lease was last asked for {age:.0f} seconds ago"
        return ""

    def unready(self) -> str:
        """Why it cannot do its work; a process that stands by for the Lease is ready to."""
        if self.leading and self._listed is None:
            return "the first list is not complete"
        if self.leading and self._listed is not None and (age := self._clock() - self._listed) > self._patience:
            return f"the last complete list is {age:.0f} seconds old"
        return self.ailment()
