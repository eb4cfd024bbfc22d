"""A work queue: keys are deduplicated, each key has one worker at a time, and new changes go before the backlog.

This module does not depend on Kubernetes. A failed key is retried with jittered exponential backoff; a new event for it
is queued at once. After server errors, pauses stay short while few keys fail: after an outage of half a minute, keys
are retried within two seconds.
"""

import asyncio
import math
import random
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
_SOON = 1.8
_RATE = 20
"""How many keys per second may be retried together after a server error."""


class WorkQueue(Generic[Key]):
    def __init__(
        self,
        *,
        base_seconds: float = 0.2,
        cap_seconds: float = 120.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Args: `jitter` returns a number from 0 to 1; a pause lasts between half and all of its exponential value."""
        self._base = base_seconds
        self._cap = cap_seconds
        self._jitter = jitter
        self._fresh: OrderedDict[Key, None] = OrderedDict()
        self._backlog: OrderedDict[Key, None] = OrderedDict()
        self._running: set[Key] = set()
        self._again: dict[Key, bool] = {}
        self._failures: dict[Key, tuple[int, float]] = {}
        """The number of failures in a row, and the time of the first."""
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._available = asyncio.Semaphore(0)

    @property
    def depth(self) -> int:
        """The number of waiting keys, without those that pause after a failure."""
        return len(self._fresh) + len(self._backlog) + len(self._again)

    @property
    def pausing(self) -> int:
        """The number of keys that will be queued after a pause."""
        return len(self._timers)

    def add(self, key: Key, *, fresh: bool = True) -> None:
        """Queue a key now. A key that is being worked on is queued again afterwards."""
        if key in self._running:
            self._again[key] = self._again.get(key, False) or fresh
            return
        self._cancel_timer(key)
        if key in self._fresh:
            return
        if key in self._backlog:
            if fresh:
                del self._backlog[key]
                self._fresh[key] = None
            return
        (self._fresh if fresh else self._backlog)[key] = None
        self._available.release()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key later, unless it is queued earlier."""
        if key in self._fresh or key in self._backlog:
            return
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._fire, key)

    def retry(
        self,
        key: Key,
        *,
        base: float | None = None,
        at_least: float = 0.0,
        at_most: float = math.inf,
        server_error: bool = False,
    ) -> float:
        """Queue a failed key after its next pause, and return the length of the pause.

        Args: `base` is the longest first pause, if it is not that of the queue.
        """
        now = asyncio.get_running_loop().time()
        failures, since = self._failures.get(key, (0, now))
        self._failures[key] = (failures + 1, since)
        whole = min(self._cap, (base or self._base) * float(2 ** min(failures, 30)))
        if server_error:
            # Limit the total rate of retries, and slow down a key that keeps failing.
            whole = min(whole, max(_SOON, (now - since) / 15, self.pausing / _RATE))
        pause = min(at_most, max(at_least, whole * (0.5 + self._jitter() / 2)))
        self.add_after(key, pause)
        return pause

    def forget(self, key: Key) -> None:
        """Reset the backoff of a key that succeeded."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """Return the next key. The caller must call `done` afterwards."""
        await self._available.acquire()
        key, _ = (self._fresh or self._backlog).popitem(last=False)
        self._running.add(key)
        return key

    def done(self, key: Key) -> None:
        self._running.discard(key)
        if key in self._again:
            self.add(key, fresh=self._again.pop(key))

    def _fire(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key, fresh=False)

    def _cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
