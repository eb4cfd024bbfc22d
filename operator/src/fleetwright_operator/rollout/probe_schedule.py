"""Schedules repeated probes. The schedule is kept in memory only, so a restart begins a new one.

A successful probe is repeated after a long interval, a failed one sooner, with exponential backoff. This module sets no
timers, because frequent reconciles ask whether a probe is due.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

_FIRST_RETRY_SECONDS = 30.0


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

    def record_result(self, key: Hashable, *, failed: bool) -> None:
        before = self._entries.get(key, _ScheduleEntry(0.0))
        failures = before.failures + 1 if failed else 0
        whole = min(self._every, _FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 20)) if failed else self._every
        self._entries[key] = _ScheduleEntry(self._clock() + whole * (0.8 + 0.4 * self._jitter()), failures)

    def forget(self, key: Hashable) -> None:
        self._entries.pop(key, None)
