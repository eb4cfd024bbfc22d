"""Detection of a blocked event loop: the loop updates a timestamp, and another thread checks the timestamp.

A tool or a library that blocks the loop blocks all callers. Readiness fails after five seconds, and the log shows where
the loop is blocked. Liveness fails only after a minute, because a slow call may still return. This module itself ends
neither the call nor the process.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Final

from prometheus_client import Counter

_logger = logging.getLogger(__name__)
STALLED_SECONDS: Final = 5.0
DEAD_SECONDS: Final = 60.0
_FRAMES: Final = 12


def stall_sentence(seconds: float) -> str:
    """Return for how long the loop has been blocked, as text for people."""
    return f"the event loop of the agent has been blocked for {seconds:.0f} s; see its log"


class EventLoopWatchdog:
    """The heartbeat of the event loop in which `begin` is called. Any thread may read it."""

    def __init__(
        self,
        stalls: Counter,
        *,
        stalled_seconds: float = STALLED_SECONDS,
        dead_seconds: float = DEAD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stalled_seconds = stalled_seconds
        self._pause = stalled_seconds / 5
        self._dead_seconds = dead_seconds
        self._stalls = stalls
        self._clock = clock
        self._last = clock()
        self._told = False
        self._thread = threading.get_ident()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._beat(asyncio.get_running_loop())

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def stalled(self) -> str | None:
        """Return for how long the loop has been blocked, as text for people; None if it is not blocked."""
        seconds = self.stalled_seconds()
        return None if seconds is None else stall_sentence(seconds)

    def stalled_seconds(self) -> float | None:
        """Return for how many seconds the loop has been blocked; None if it is not blocked."""
        still = self._still()
        return None if still <= self._stalled_seconds else still

    @property
    def dead(self) -> bool:
        return self._still() > self._dead_seconds

    def listen(self) -> None:
        """Count each stall once, and log the stack of the loop. Another thread calls this periodically."""
        if self.stalled() is None:
            self._told = False
        elif not self._told:
            self._told = True
            self._stalls.inc()
            frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the one way to see another thread's stack
            stack = traceback.format_stack(frame)[-_FRAMES:] if frame else []
            _logger.error("the event loop is blocked", extra={"seconds": round(self._still(), 1), "stack": stack})

    def _still(self) -> float:
        return max(0.0, self._clock() - self._last - self._pause)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last = self._clock()
        self._timer = loop.call_later(self._pause, self._beat, loop)
