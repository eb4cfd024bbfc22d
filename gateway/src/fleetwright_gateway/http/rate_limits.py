"""Rate limits per principal, with the headers that tell a caller how much is left."""

import math
from dataclasses import dataclass

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.rate_limits import TokenBuckets


@dataclass(frozen=True, slots=True)
class Quota:
    """The state of a caller's limit after a request."""

    limit: int
    left: int
    wait_seconds: float
    """Zero if the request may proceed."""

    @property
    def headers(self) -> dict[str, str]:
        full = math.ceil((self.limit - self.left) * 60 / self.limit)
        found = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.left),
            "X-RateLimit-Reset": str(full),
        }
        return found | ({"Retry-After": str(math.ceil(self.wait_seconds))} if self.wait_seconds else {})


class RateLimits:
    def __init__(self, *, per_minute: int, clock: Clock) -> None:
        self._per_minute = per_minute
        self._buckets = TokenBuckets(per_minute=per_minute, clock=clock)

    def take(self, caller: str) -> Quota:
        wait, left = self._buckets.take(caller)
        return Quota(self._per_minute, left, wait)
