"""Asks the API server about tokens (TokenReview), within bounds, and fails closed.

Successes are cached for at most 30 seconds and never past the expiry of the token; failures for one second. Concurrent
reviews of one token are merged. The number of reviews a second is limited, so that garbage tokens cannot overload the
API server. One source may use half of this number, so that garbage from one source cannot lock out callers at others.
Tokens that were accepted before have a limit of their own, so that garbage cannot lock out known callers.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.rate_limits import TokenBucket
from fleetwright_gateway.identity.errors import ReviewUnavailable, TooManyReviews
from fleetwright_gateway.identity.principals import User
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.port import Api, Object, Resource

TOKEN_REVIEWS: Final = Resource(
    kind="TokenReview", group="authentication.k8s.io", version="v1", plural="tokenreviews", namespaced=False
)
_KNOWN_SECONDS: Final = 30.0
_REFUSED_SECONDS: Final = 1.0
_PER_SECOND: Final = 20
_MOST_ENTRIES: Final = 4096
_MOST_SOURCES: Final = 4096


@dataclass(frozen=True, slots=True)
class Reviewed:
    user: User | None
    """None if the token was refused."""
    until: float


class TokenReviewer:
    def __init__(
        self,
        api: Api,
        *,
        audiences: Collection[str],
        clock: Clock,
        per_second: int = _PER_SECOND,
    ) -> None:
        self._api = api
        self._audiences = sorted(audiences)
        self._clock = clock
        self._burst = float(per_second)
        self._new = TokenBucket(per_second * 60, self._burst, clock.monotonic())
        self._accepted = TokenBucket(per_second * 60, self._burst, clock.monotonic())
        self._sources: OrderedDict[str, TokenBucket] = OrderedDict()
        """The rate limits for unknown tokens, by source."""
        self._accepted_tokens: OrderedDict[bytes, None] = OrderedDict()
        """The tokens that were accepted before. Their reviews have a limit of their own."""
        self._entries: OrderedDict[bytes, Reviewed] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[User | None]] = {}

    def known(self, token: str) -> Reviewed | None:
        """Return the last answer about a token while it is valid; it is never valid beyond the expiry of the token."""
        key = sha256(token.encode()).digest()
        entry = self._entries.get(key)
        if entry is None or self._clock.monotonic() >= entry.until:
            return None
        self._entries.move_to_end(key)
        return entry

    async def review(self, token: str, *, expiry: float, source: str | None) -> User | None:
        """Ask about a token that is not known. Return its user, or None if the API server refuses the token.

        Args: `source` has a limit of its own. None if the source is not known.

        Raises:
            TooManyReviews: The limit of reviews a second is reached.
            ReviewUnavailable: The API server did not answer.
        """
        key = sha256(token.encode()).digest()
        task = self._running.get(key)
        if task is None:
            if key in self._accepted_tokens:
                self._spend(self._accepted, self._burst)
            else:
                if source is not None:
                    self._spend(self._bucket_of(source), self._burst / 2)
                self._spend(self._new, self._burst)
            task = self._running[key] = asyncio.create_task(self._ask(key, token, expiry))
            task.add_done_callback(lambda done: self._ended(key, done))
        # One caller that gives up must not cancel the review for the others.
        return await asyncio.shield(task)

    def _bucket_of(self, source: str) -> TokenBucket:
        rate, now = self._burst / 2, self._clock.monotonic()
        bucket = self._sources.pop(source, None) or TokenBucket(int(rate * 60), rate, now)
        self._sources[source] = bucket
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)
        return bucket

    def _spend(self, bucket: TokenBucket, burst: float) -> None:
        bucket.left = min(bucket.left, burst)
        if bucket.take(self._clock.monotonic()):
            raise TooManyReviews

    def _ended(self, key: bytes, task: "asyncio.Task[User | None]") -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # Reading the error stops asyncio from logging it if no request waits any more.

    async def _ask(self, key: bytes, token: str, expiry: float) -> User | None:
        body: Object = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "metadata": {"namespace": ""},
            "spec": {"token": token, "audiences": self._audiences},
        }
        try:
            answer = await self._api.create(TOKEN_REVIEWS, body)
        except TRANSIENT_ERRORS:
            raise ReviewUnavailable from None
        user = self._user(answer.get("status") or {})
        left = expiry - self._clock.now()
        seconds = min(_KNOWN_SECONDS, left) if user is not None else _REFUSED_SECONDS
        self._entries[key] = Reviewed(user, self._clock.monotonic() + seconds)
        self._entries.move_to_end(key)
        while len(self._entries) > _MOST_ENTRIES:
            self._entries.popitem(last=False)
        self._remember(key, is_accepted=user is not None)
        return user

    def _remember(self, key: bytes, *, is_accepted: bool) -> None:
        self._accepted_tokens.pop(key, None)
        if is_accepted:
            self._accepted_tokens[key] = None
            if len(self._accepted_tokens) > _MOST_ENTRIES:
                self._accepted_tokens.popitem(last=False)

    def _user(self, status: Any) -> User | None:
        # A server that does not know audiences returns none; its answer is about its own audience, not about ours.
        accepted = set(status.get("audiences") or ()) & set(self._audiences)
        found = status.get("user") or {}
        if status.get("authenticated") is not True or not accepted or not found.get("username"):
            return None
        return User(
            username=found["username"],
            uid=found.get("uid", ""),
            groups=tuple(found.get("groups") or ()),
            extra={key: tuple(values) for key, values in (found.get("extra") or {}).items()},
        )
