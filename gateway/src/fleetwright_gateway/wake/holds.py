"""Bounds on requests that wait for sleeping agents: their number and size, and the wakes of each caller."""

from collections import Counter, OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.rate_limits import TokenBucket
from fleetwright_api.call_authorization import Identity

_PER_AGENT: Final = 100
_BYTES: Final = 64 * 1024 * 1024
_BYTES_OF_A_CALLER: Final = 16 * 1024 * 1024
_PER_MINUTE: Final = 20
_MOST_BUCKETS: Final = 4096


class HoldLimit(Exception):  # noqa: N818 - an answer to the caller
    """No further request can wait at the moment."""

    def __init__(self, sentence: str, *, retry_seconds: int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.retry_seconds = retry_seconds


class Holds:
    def __init__(
        self, clock: Clock, *, per_agent: int = _PER_AGENT, max_bytes: int = _BYTES, per_minute: int = _PER_MINUTE
    ) -> None:
        """Args: `max_bytes` bounds all waiting bodies; `per_minute` is the number of wakes of one caller."""
        self._clock = clock
        self._per_agent = per_agent
        self._max_bytes = max_bytes
        self._per_minute = per_minute
        self._waiting: Counter[Identity] = Counter()
        self._bytes = 0
        self._bytes_of: Counter[str] = Counter()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    @contextmanager
    def hold(self, agent: Identity, *, caller: str, size: int) -> Generator[None, None, None]:
        """Count a waiting request. Raises: HoldLimit."""
        if self._waiting[agent] >= self._per_agent:
            raise HoldLimit("Too many requests wait for this agent to wake.", retry_seconds=5)
        if self._bytes + size > self._max_bytes:
            raise HoldLimit("Too many requests wait for agents to wake.", retry_seconds=5)
        if self._bytes_of[caller] + size > _BYTES_OF_A_CALLER:
            raise HoldLimit("Too many requests of this caller wait for agents to wake.", retry_seconds=5)
        self._waiting[agent] += 1
        self._bytes += size
        self._bytes_of[caller] += size
        try:
            yield
        finally:
            self._bytes -= size
            self._bytes_of[caller] -= size
            if not self._bytes_of[caller]:
                del self._bytes_of[caller]
            self._waiting[agent] -= 1
            if not self._waiting[agent]:
                del self._waiting[agent]

    def count_wake(self, caller: str) -> None:
        """Count a wake that a caller starts. Raises: HoldLimit."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(caller, None) or TokenBucket(self._per_minute, float(self._per_minute), now)
        self._buckets[caller] = bucket
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if wait := bucket.take(now):
            sentence = f"This caller may wake {self._per_minute} agents a minute."
            raise HoldLimit(sentence, retry_seconds=int(wait) + 1)
