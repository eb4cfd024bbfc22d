"""Counts the model calls of the last minute, and keeps the last refusal of each model, for the status page. From these,
the operator decides whether an agent is degraded.

Only failures of the provider count as errors: errors with a status of 500 or more, timeouts, and failed connections. A
refused request or an exhausted rate limit does not count. Another thread serves the status page. It only reads.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

WINDOW_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class _Second:
    second: int = -WINDOW_SECONDS
    calls: int = 0
    errors: int = 0


class ModelCallWindow:
    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seconds = [_Second()] * WINDOW_SECONDS
        """One entry for each second of the window. Entries are replaced as a whole."""
        self._last_error = ""
        self._refusals: dict[str, dict[str, str]] = {}
        """By model. The mapping is replaced as a whole."""

    def note_refusal(self, model: str, reason: str, message: str) -> None:
        """Keep why the provider refused the last call to a model, until a call succeeds."""
        self._refusals = {**self._refusals, model: {"model": model, "reason": reason, "message": message}}

    def note_success(self, model: str) -> None:
        if model in self._refusals:
            self._refusals = {name: refusal for name, refusal in self._refusals.items() if name != model}

    def note(self, *, error: str = "") -> None:
        """Count a call. Args: `error` is the reason if the provider failed, else empty."""
        now = int(self._monotonic())
        place = now % WINDOW_SECONDS
        before = self._seconds[place]
        kept = before if before.second == now else _Second(now)
        self._seconds[place] = _Second(now, kept.calls + 1, kept.errors + bool(error))
        self._last_error = error or self._last_error

    def report(self) -> dict[str, Any]:
        """Return the counts of the last minute, the reason of the last error if there was one in it, and refusals."""
        since = int(self._monotonic()) - WINDOW_SECONDS
        current = [each for each in self._seconds if each.second > since]
        errors = sum(each.errors for each in current)
        counts = {"seconds": WINDOW_SECONDS, "calls": sum(each.calls for each in current), "errors": errors}
        refused = list(self._refusals.values())
        return {
            **counts,
            **({"lastError": self._last_error} if errors else {}),
            **({"refused": refused} if refused else {}),
        }
