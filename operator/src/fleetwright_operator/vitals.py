"""Signs of life, for probes: when the API server last answered a whole list, and when the Lease was last in hand."""

from collections.abc import Callable


class Vitals:
    def __init__(self, *, clock: Callable[[], float], resync_seconds: float) -> None:
        self._clock = clock
        self._patience = 3 * resync_seconds + 60
        self._contact = clock()
        self._listed: float | None = None
        self.leading = False

    def lead(self, leading: bool) -> None:
        """Whether it leads from now on; what was listed before counts no more."""
        self.leading = leading
        self._listed = None

    def lease_contact(self) -> None:
        """The Lease was read or renewed."""
        self._contact = self._clock()

    def listed(self) -> None:
        """Every list of a resync succeeded."""
        self._listed = self._clock()

    def ailment(self) -> str:
        """Why the process should be restarted; empty while it should not."""
        if (age := self._clock() - self._contact) > 60:
            return f"the Lease was last reached {age:.0f} seconds ago"
        if self.leading and self._listed is not None and (age := self._clock() - self._listed) > self._patience:
            return f"the last complete list is {age:.0f} seconds old"
        return ""

    def unready(self) -> str:
        """Why it cannot do its work yet; a process that stands by for the Lease is ready to."""
        if self.leading and self._listed is None:
            return "the first list is not complete"
        return self.ailment()
