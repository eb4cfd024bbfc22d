"""Rate limits per principal, with the headers that tell a caller how much is left."""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.rate_limits import TokenBucket

_MOST_BUCKETS: Final = 16_384


@dataclass(frozen=True, slots=True)
class Quota:
    """The state of a caller's limit after a request."""

    limit: int
    left: int
    wait_seconds: float
    """Zero if the request may proceed."""

    @property
    def headers(self) -> dict[str, str]:
        found = {"X-RateLimit-Limit": str(self.limit), "X-RateLimit-Remaining": str(self.left)}
        return found | ({"Retry-After": str(math.ceil(self.wait_seconds))} if self.wait_seconds else {})


class RateLimits:
    def __init__(self, *, per_minute: int, clock: Clock) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, caller: str) -> Quota:
        now = self._clock.monotonic()
        bucket = self._buckets.pop(caller, None) or TokenBucket(self._per_minute, float(self._per_minute), now)
        self._buckets[caller] = bucket
        if len(self._buckets) > _MOST_BUCKETS:
            # A bucket that is dropped starts full again. Only callers that have been quiet longest are dropped.
            self._buckets.popitem(last=False)
        wait = bucket.take(now)
        return Quota(self._per_minute, int(bucket.left), wait)
