"""The activity that an agent reports, and the obstacles to its sleep. Pure.

The operator decides by this report whether an agent sleeps, and the command line explains it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

SCRAPE_SECONDS: Final = 120
"""The maximum time to wait for a scrape of the counters, after the last activity of a caller's task or the last scrape.
"""
_COUNTS: Final = ("runningTasks", "waitingTasks", "openStreams", "undeliveredPushes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The activity of one agent process. Times are in seconds since the epoch."""

    running_tasks: int = 0
    waiting_tasks: int = 0
    """The tasks that wait for their turn in the queue."""
    open_streams: int = 0
    undelivered_pushes: int = 0
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
    def is_busy(self) -> bool:
        """True if a task runs or waits for its turn, a stream is open, or a push notification waits for delivery."""
        return any((self.running_tasks, self.waiting_tasks, self.open_streams, self.undelivered_pushes))

    @property
    def is_scraped(self) -> bool:
        """True if the counters were scraped after the last activity of every task."""
        return self.scraped_at is not None and self.scraped_at >= max(self.last_active, self.last_own_active or 0)


class SleepObstacle(NamedTuple):
    """Something in the report of an agent that keeps the agent awake."""

    state: str
    """What the agent does or has done, as the end of a sentence that begins with "awake because"."""
    rule: str
    """Why this keeps it awake."""


def parse_activity(document: Any, *, read_at: int, parse_time: Callable[[str], int]) -> Activity | None:
    """Return None if the agent reports no activity, or an unusable one. Such an agent never sleeps.

    The report is untrusted, so each field is validated by itself.

    Args:
        document: The field `activity` of the status page.
        read_at: When the page was read.
        parse_time: Returns the seconds since the epoch of a timestamp, and raises ValueError for other texts.
    """

    def parse_time_field(name: str) -> int | None:
        value = document.get(name)
        try:
            return parse_time(value) if isinstance(value, str) else None
        except ValueError:
            return None

    if not isinstance(document, Mapping):
        return None
    given = [document.get(name) for name in _COUNTS]
    counts = [count for count in given if type(count) is int and count >= 0]
    started, last = parse_time_field("startedAt"), parse_time_field("lastTaskActivity")
    if started is None or len(counts) < len(given):
        return None
    running, waiting, streams, pushes = counts
    return Activity(
        running_tasks=running,
        waiting_tasks=waiting,
        open_streams=streams,
        undelivered_pushes=pushes,
        last_active=max(started, last or 0),
        last_own_active=parse_time_field("lastOwnTaskActivity"),
        scraped_at=parse_time_field("scrapedAt"),
        wakes_at=parse_time_field("nextWakeAt"),
        read_at=read_at,
    )


def find_sleep_obstacles(activity: Activity, *, after_idle: int, now: int) -> Iterator[SleepObstacle]:
    """Yield what keeps the agent awake, the most important first; nothing if the report allows it to sleep.

    Args:
        activity: The report.
        after_idle: `spec.sleep.afterIdle` in seconds.
        now: The time in seconds since the epoch, for pending work. Pauses end at `activity.read_at`, not at `now`.
    """
    for count, one, more in (
        (activity.running_tasks, "a task runs", "{} tasks run"),
        (activity.waiting_tasks, "a task waits for its turn", "{} tasks wait for their turn"),
        (activity.open_streams, "a caller reads a stream", "{} streams are open"),
        (
            activity.undelivered_pushes,
            "a push notification waits for delivery",
            "{} push notifications wait for delivery",
        ),
    ):
        if count:
            yield SleepObstacle(one if count == 1 else more.format(count), "the agent sleeps only when it is idle")
    if activity.wakes_at is not None and activity.wakes_at <= now:
        yield SleepObstacle(
            "work is due, such as a retry, an expiry or the retention of the memory",
            "the agent does this work before it sleeps",
        )
    pause = activity.read_at - activity.last_active
    if pause < after_idle:
        yield SleepObstacle(
            f"a task was active, or the pod started, {max(pause, 0)} s ago",
            f"spec.sleep.afterIdle asks for a pause of {after_idle} s",
        )
    # Tasks that the agent begins by itself may follow each other so closely that no pause after one is long enough. The
    # wait therefore ends when there was no scrape for this time, not when there was no task.
    unscraped = activity.read_at - max(activity.last_active, activity.scraped_at or 0)
    if not activity.is_scraped and unscraped < SCRAPE_SECONDS:
        yield SleepObstacle(
            "Prometheus has not read its metrics since the last task",
            f"the operator waits for that for {SCRAPE_SECONDS - unscraped} s more, so that no counted cost is lost",
        )
