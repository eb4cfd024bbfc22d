"""When something that was looked at is due to be looked at again. Kept in memory only: a restart begins a round anew.

A good answer is asked for again after a slow interval, a failed one sooner, and less and less soon. Refuses timers:
passes come often enough by themselves, and ask.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

_FIRST_RETRY_SECONDS = 30.0


@dataclass(slots=True)
class _Round:
    due: float
    failures: int = 0


class Rounds:
    def __init__(self, *, every: float, clock: Callable[[], float], jitter: Callable[[], float]) -> None:
        """`jitter` answers from 0 to 1: after a restart not everything is due at the same moment."""
        self._every = every
        self._clock = clock
        self._jitter = jitter
        self._rounds: dict[Hashable, _Round] = {}

    def is_due(self, key: Hashable, *, failed: bool) -> bool:
        """What is asked about for the first time in this process is due some time within its interval."""
        if key not in self._rounds:
            whole = _FIRST_RETRY_SECONDS if failed else self._every
            self._rounds[key] = _Round(self._clock() + whole * self._jitter())
        return self._clock() >= self._rounds[key].due

    def answered(self, key: Hashable, *, failed: bool) -> None:
        before = self._rounds.get(key, _Round(0.0))
        failures = before.failures + 1 if failed else 0
        whole = min(self._every, _FIRST_RETRY_SECONDS * 2 ** min(failures - 1, 20)) if failed else self._every
        self._rounds[key] = _Round(self._clock() + whole * (0.8 + 0.4 * self._jitter()), failures)

    def forget(self, key: Hashable) -> None:
        self._rounds.pop(key, None)
