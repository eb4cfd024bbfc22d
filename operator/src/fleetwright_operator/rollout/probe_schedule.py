"""Schedules repeated probes. The schedule is kept in memory only, so a restart begins a new one.

A successful probe is repeated after a long interval, a failed one sooner, with exponential backoff. A server that could
not be reached is tried again every minute, so that it is used soon after it has recovered. This module sets no timers.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from fleetwright_operator.rollout.probe_result import UNAVAILABLE

_FIRST_RETRY_SECONDS = 30.0
_LONGEST_RETRY_SECONDS = 300.0
_UNAVAILABLE_SECONDS = 60.0


@dataclass(slots=True)
class _ScheduleEntry:
    due: float
    failures: int = 0


class ProbeSchedule:
    def __init__(self, *, every: float, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        """Args: `jitter` returns a number from 0 to 1. It spreads the load after a restart."""
        self._every = every
        self._clock = clock
        self._jitter = jitter
        self._entries: dict[Hashable, _ScheduleEntry] = {}

    def is_due(self, key: Hashable, *, failed: bool) -> bool:
        """Return whether a probe is due. The first one in this process is due at a random time within the interval."""
        if key not in self._entries:
            whole = _FIRST_RETRY_SECONDS if failed else self._every
            self._entries[key] = _ScheduleEntry(self._clock() + whole * self._jitter())
        return self._clock() >= self._entries[key].due

    def record_result(self, key: Hashable, *, failure: str) -> None:
        """Args: `failure` is the reason of the failure; empty after a success."""
        before = self._entries.get(key, _ScheduleEntry(0.0))
        failures = before.failures + 1 if failure else 0
        longest = _UNAVAILABLE_SECONDS if failure == UNAVAILABLE else _LONGEST_RETRY_SECONDS
        whole = min(longest, self._every, _FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 20)) if failure else self._every
        self._entries[key] = _ScheduleEntry(self._clock() + whole * (0.8 + 0.2 * self._jitter()), failures)

    def seconds_until_due(self, key: Hashable) -> float | None:
        """Return the seconds until the next probe; None if `is_due` and `record_result` were not called yet."""
        known = self._entries.get(key)
        return None if known is None else max(0.0, known.due - self._clock())

    def forget(self, key: Hashable) -> None:
        self._entries.pop(key, None)
