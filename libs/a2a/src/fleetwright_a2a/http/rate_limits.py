"""Rate limits: one token bucket per caller.

The middleware runs after the authentication, so only authenticated callers get a bucket. This module does not look at
the requests.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import refuse

_MOST_BUCKETS: Final = 16_384


@dataclass(slots=True)
class TokenBucket:
    """A token bucket that holds the requests of one minute and is refilled continuously."""

    per_minute: int
    left: float
    at: float

    def take(self, now: float) -> float:
        """Take a token and return 0, or return the seconds until the next token is available."""
        self.left = min(self.per_minute, self.left + (now - self.at) * self.per_minute / 60)
        self.at = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) * 60 / self.per_minute


class TokenBuckets:
    """The buckets of all callers. Their number is bounded, because there may be any number of persons."""

    def __init__(self, *, per_minute: int, clock: Clock, most: int = _MOST_BUCKETS) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._most = most
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, caller: str) -> tuple[float, int]:
        """Take a token. Return the seconds until the next one is available, or 0, and the number that is left."""
        now = self._clock.monotonic()
        bucket = self._buckets.pop(caller, None) or TokenBucket(self._per_minute, float(self._per_minute), now)
        self._buckets[caller] = bucket
        if len(self._buckets) > self._most:
            # A bucket that is dropped starts full again. Only callers that have been quiet longest are dropped.
            self._buckets.popitem(last=False)
        return bucket.take(now), int(bucket.left)


class RateLimit:
    """ASGI middleware that limits the rate of each authenticated caller."""

    def __init__(self, app: ASGIApp, *, per_minute: int, clock: Clock) -> None:
        self._app = app
        self._per_minute = per_minute
        self._buckets = TokenBuckets(per_minute=per_minute, clock=clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Only requests for the public cards have no user.
        seconds, _ = self._buckets.take(scope["user"].display_name) if "user" in scope else (0.0, 0)
        if seconds:
            sentence = f"This caller may send {self._per_minute} requests a minute; wait and send it again."
            headers = {"Retry-After": str(math.ceil(seconds)), "Connection": "close"}
            await refuse(429, sentence, headers=headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)
