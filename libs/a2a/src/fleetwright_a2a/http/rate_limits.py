"""Rate limits: one token bucket per caller.

The middleware runs after the authentication, so only authenticated callers get a bucket. This module does not look at
the requests.
"""

import math
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import refuse


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


class RateLimit:
    """ASGI middleware that limits the rate of each authenticated caller."""

    def __init__(self, app: ASGIApp, *, per_minute: int, clock: Clock) -> None:
        self._app = app
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Only requests for the public cards have no user.
        if "user" in scope and (seconds := self._bucket(scope["user"].display_name).take(self._clock.monotonic())):
            sentence = f"This caller may send {self._per_minute} requests a minute; wait and send it again."
            headers = {"Retry-After": str(math.ceil(seconds)), "Connection": "close"}
            await refuse(429, sentence, headers=headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _bucket(self, owner: str) -> TokenBucket:
        fresh = TokenBucket(self._per_minute, float(self._per_minute), self._clock.monotonic())
        return self._buckets.setdefault(owner, fresh)
