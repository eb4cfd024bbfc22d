"""Keys that wait for work: each once, one worker at a time per key, the fresh before the backlog.

Knows nothing of Kubernetes. A key that failed comes back after an exponential pause with jitter; new news of
it comes at once. Where somebody else is at fault, who may be well again at any moment, pauses stay short for as long
as few keys fail: then what failed for half a minute is back within two seconds.
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
"""So many keys a second may come back together."""


class WorkQueue(Generic[Key]):
    def __init__(
        self,
        *,
        base_seconds: float = 0.2,
        cap_seconds: float = 120.0,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`jitter` answers from 0 to 1; a pause is between half and all of its exponential value."""
        self._base = base_seconds
        self._cap = cap_seconds
        self._jitter = jitter
        self._fresh: OrderedDict[Key, None] = OrderedDict()
        self._backlog: OrderedDict[Key, None] = OrderedDict()
        self._running: set[Key] = set()
        self._again: dict[Key, bool] = {}
        self._failures: dict[Key, tuple[int, float]] = {}
        """How often in a row, and since when."""
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._available = asyncio.Semaphore(0)

    @property
    def depth(self) -> int:
        """Keys that wait, those that pause after a failure not counted."""
        return len(self._fresh) + len(self._backlog) + len(self._again)

    @property
    def pausing(self) -> int:
        """Keys that come back after a pause."""
        return len(self._timers)

    def add(self, key: Key, *, fresh: bool = True) -> None:
        """Queues a key at once; a key that is worked on comes again afterwards."""
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
        """Queues a key later, unless something queues it earlier."""
        if key in self._fresh or key in self._backlog:
            return
        self._cancel_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._ring, key)

    def retry(
        self, key: Key, *, at_least: float = 0.0, at_most: float = math.inf, not_its_fault: bool = False
    ) -> float:
        """Queues a failed key after its next pause, and says how long that is."""
        now = asyncio.get_running_loop().time()
        failures, since = self._failures.get(key, (0, now))
        self._failures[key] = (failures + 1, since)
        whole = min(self._cap, self._base * float(2 ** min(failures, 30)))
        if not_its_fault:
            # Neither may many keys together ask too often, nor one for ever.
            whole = min(whole, max(_SOON, (now - since) / 15, self.pausing / _RATE))
        pause = min(at_most, max(at_least, whole * (0.5 + self._jitter() / 2)))
        self.add_after(key, pause)
        return pause

    def forget(self, key: Key) -> None:
        """The key succeeded: its next failure starts from the shortest pause."""
        self._failures.pop(key, None)

    async def get(self) -> Key:
        """The next key; the caller owes a `done`."""
        await self._available.acquire()
        key, _ = (self._fresh or self._backlog).popitem(last=False)
        self._running.add(key)
        return key

    def done(self, key: Key) -> None:
        self._running.discard(key)
        if key in self._again:
            self.add(key, fresh=self._again.pop(key))

    def _ring(self, key: Key) -> None:
        self._timers.pop(key, None)
        self.add(key, fresh=False)

    def _cancel_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
