"""What an agent reports about its activity. The report is untrusted, so each field is validated by itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_kube.timestamps import parse_timestamp

_COUNTS: Final = ("runningTasks", "waitingTasks", "openStreams", "undeliveredPushes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The activity of one agent process. Times are in seconds since the epoch."""

    is_busy: bool
    """True if a task runs or waits for its turn, a stream is open, or a push notification is not delivered."""
    last_active: int
    """The last activity of a task of a caller, or the start of the process."""
    last_own_active: int | None = None
    """The last activity of a task that the agent began by itself. It does not restart the idle time."""
    scraped_at: int | None
    """When the counters were last scraped."""
    wakes_at: int | None
    """The time at which the agent has to do pending work, such as a retry of a push notification or an expiry."""
    read_at: int

    @property
    def is_scraped(self) -> bool:
        """True if the counters were scraped after the last activity of every task."""
        return self.scraped_at is not None and self.scraped_at >= max(self.last_active, self.last_own_active or 0)


def parse_activity(document: Any, *, read_at: int) -> Activity | None:
    """Return None if the agent reports no activity, or an unusable one. Such an agent never sleeps."""
    if not isinstance(document, Mapping):
        return None
    counts = [document.get(name) for name in _COUNTS]
    started, last = _time(document.get("startedAt")), _time(document.get("lastTaskActivity"))
    if started is None or not all(type(count) is int and count >= 0 for count in counts):
        return None
    return Activity(
        is_busy=any(counts),
        last_active=max(started, last or 0),
        last_own_active=_time(document.get("lastOwnTaskActivity")),
        scraped_at=_time(document.get("scrapedAt")),
        wakes_at=_time(document.get("nextWakeAt")),
        read_at=read_at,
    )


def _time(value: Any) -> int | None:
    try:
        return parse_timestamp(value) if isinstance(value, str) else None
    except ValueError:
        return None
