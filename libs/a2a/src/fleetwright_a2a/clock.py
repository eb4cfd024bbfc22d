"""An injectable clock, which the server reads instead of the system's clocks."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    now_ns: Callable[[], int] = time.time_ns
    """Wall time since the epoch, for timestamps that callers see."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that never go back, for durations."""

    def now(self) -> float:
        """Wall time in seconds since the epoch."""
        return self.now_ns() / 1e9
