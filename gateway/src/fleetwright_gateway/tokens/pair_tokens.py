"""Issues the pair tokens with which the gateway calls agents on behalf of its callers."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.pair_token import Actor, PairTokenClaims, mint, signing_key
from fleetwright_gateway.identity.principals import Principal
from fleetwright_gateway.tokens.key_ring import KeyRing

SECONDS: Final = 60
"""The life of a token that does not leave the gateway."""
_REUSED_SECONDS: Final = 30
_MOST_CACHED: Final = 8192


class NoSigningKey(Exception):  # noqa: N818 - a temporary state
    """No key may sign at the moment."""


class PairTokenIssuer:
    def __init__(
        self, ring: KeyRing, *, issuer: str, clock: Clock, new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)
    ) -> None:
        self._ring = ring
        self._issuer = issuer
        self._clock = clock
        self._new_id = new_id
        self._cache: OrderedDict[tuple[str, str, str, str], tuple[str, float]] = OrderedDict()

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def token_for(self, caller: Principal, audience: str) -> str:
        """Return a token for requests of this caller to one agent. It is used again for half of its life.

        Args:
            caller: The immediate actor, which is also the original principal.
            audience: The uid of the callee's Agent object.

        Raises:
            NoSigningKey: No key may sign at the moment.
        """
        now = self._clock.now()
        key = self._ring.signing_key(now)
        if key is None:
            raise NoSigningKey(self._ring.problem(now))
        cached = (caller.subject, caller.uid, audience, str(key.jwk["kid"]))
        found = self._cache.get(cached)
        if found is not None and now < found[1]:
            return found[0]
        token = self.mint(caller, audience)
        self._cache[cached] = (token, now + _REUSED_SECONDS)
        self._cache.move_to_end(cached)
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return token

    def mint(self, caller: Principal, audience: str, *, key_thumbprint: str | None = None) -> str:
        """Return a new token. `key_thumbprint` binds it to a key of the caller. Raises: NoSigningKey."""
        now = self._clock.now()
        key = self._ring.signing_key(now)
        if key is None:
            raise NoSigningKey(self._ring.problem(now))
        claims = PairTokenClaims(
            issuer=self._issuer,
            subject=caller.subject,
            actor=Actor(caller.subject, caller.uid),
            audience=audience,
            token_id=self._new_id(),
            issued_at=int(now),
            expires_at=int(now) + SECONDS,
            key_thumbprint=key_thumbprint,
        )
        return mint(claims, signing_key(key.jwk))
