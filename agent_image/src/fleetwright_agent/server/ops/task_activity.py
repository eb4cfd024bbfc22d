"""The activity of this agent for the status page, from which the operator decides whether the agent may sleep.

The status page is served by another thread, so every value is a plain attribute that the event loop has set before.
This module reads no store.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import INTERRUPTED
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.server.tasks.active_task import ActiveTask

_SECOND: Final = 1_000_000_000


class TaskActivity:
    """The times of this process. Heartbeats, probes and reads of the status page do not count as activity."""

    def __init__(self, clock: Clock, *, own: str = "") -> None:
        """Args: `own` is the caller whose tasks the agent begins by itself."""
        self._clock = clock
        self._own = own
        self.last_ns: int | None = None
        """The last time that a task of a caller was accepted, made progress, ended, or was read or cancelled."""
        self.own_task_ns: int | None = None
        """The last activity of a task that the agent began by itself."""
        self.expires_ns: int | None = None
        """The time at which the next wait for an approval or an answer expires."""
        self._started_ns: int | None = None
        self._quiet_since: float | None = None
        self._scraped_ns: int | None = None

    def note(self) -> None:
        """Record that a task was active now."""
        self.last_ns = self._clock.now_ns()

    def on_event(self, live: ActiveTask) -> None:
        """Record the event of a task. If the task begins to wait, the expiry of the wait is known at once."""
        if live.owner == self._own:
            self.own_task_ns = self._clock.now_ns()
        else:
            self.note()
        if live.resting:
            self._quiet_since = self._clock.monotonic()
        if live.resting and live.state in INTERRUPTED and (pause := pause_of(live.task)):
            self.expires_ns = _earliest((self.expires_ns, pause.expires_ns))

    def note_ready(self) -> None:
        """Record that the process became ready. The first time counts."""
        if self._started_ns is None:
            self._started_ns = self._clock.now_ns()
            self._quiet_since = self._clock.monotonic()

    def note_scrape(self) -> None:
        """Record that the metrics are about to be read."""
        self._scraped_ns = self._clock.now_ns()

    @property
    def latest_ns(self) -> int | None:
        """The last time that any task was active."""
        return max((each for each in (self.last_ns, self.own_task_ns) if each is not None), default=None)

    def quiet_seconds(self) -> float:
        """Return the time since a task last ended or began to wait, or since the process became ready.

        Zero before the process is ready.
        """
        return 0.0 if self._quiet_since is None else self._clock.monotonic() - self._quiet_since

    def report(
        self, *, running: int, waiting: int, streams: int, pushes: int, wakes_ns: Iterable[int | None]
    ) -> dict[str, Any]:
        """Return the report as the operator reads it.

        Args:
            wakes_ns: The times at which the agent has work of its own to do, besides the expiry of a wait.
        """
        return {
            "runningTasks": running,
            "waitingTasks": waiting,
            "openStreams": streams,
            "undeliveredPushes": pushes,
            "startedAt": _timestamp(self._started_ns),
            "lastTaskActivity": _timestamp(self.last_ns, up=True),
            "lastOwnTaskActivity": _timestamp(self.own_task_ns, up=True),
            "nextWakeAt": _timestamp(_earliest((self.expires_ns, *wakes_ns)), up=True),
            "scrapedAt": _timestamp(self._scraped_ns),
        }


def _earliest(times: Iterable[int | None]) -> int | None:
    return min((each for each in times if each is not None), default=None)


def _timestamp(at_ns: int | None, *, up: bool = False) -> str | None:
    """Format a time in whole seconds.

    Args:
        up: Round up. Then no scrape counts as later than an activity by mistake, and work is due when the agent wakes.
    """
    if at_ns is None:
        return None
    seconds = -(-at_ns // _SECOND) if up else at_ns // _SECOND
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
