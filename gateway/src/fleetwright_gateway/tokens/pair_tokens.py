"""Issues the tokens with which the gateway calls agents on behalf of its callers.

A request to an agent carries a pair token, which the agent verifies, and a delegation, with which the agent may act for
the principal while it works on the task.
"""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.delegation_token import MAX_SECONDS, DelegationClaims, mint_delegation
from fleetwright_a2a.tokens.keys import signing_key
from fleetwright_a2a.tokens.pair_token import PairTokenClaims, mint
from fleetwright_api.approval_sources import may_request_approval
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_gateway.tokens.call_chain import CallChain
from fleetwright_gateway.tokens.key_ring import KeyRing, RingKey

SECONDS: Final = 60
"""The life of a token that does not leave the gateway."""
DIRECT_SECONDS: Final = 300
"""The life of a token with which a caller calls an agent directly."""
_REUSED_SECONDS: Final = 30
_MOST_CACHED: Final = 8192
_TURN_SECONDS: Final = 600
"""The limit of a turn, if the spec sets none."""
_QUEUE_SECONDS: Final = 3600
"""The time that a task may wait in the agent's queue."""


class NoSigningKey(Exception):  # noqa: N818 - a temporary state
    """No key may sign at the moment."""


@dataclass(frozen=True, slots=True)
class CallCredentials:
    """The credentials of a request to one agent."""

    pair_token: str = field(repr=False)
    delegation: str = field(repr=False)


class PairTokenIssuer:
    def __init__(
        self, ring: KeyRing, *, issuer: str, clock: Clock, new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16)
    ) -> None:
        self._ring = ring
        self._issuer = issuer
        self._clock = clock
        self._new_id = new_id
        self._cache: OrderedDict[tuple[CallChain, str, str], tuple[CallCredentials, float]] = OrderedDict()

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def credentials_for(self, chain: CallChain, agent: AgentView) -> CallCredentials:
        """Return credentials for requests of this chain to one agent. They are used again for half a minute.

        Raises:
            NoSigningKey: No key may sign at the moment.
        """
        now = self._clock.now()
        key = self._key(now)
        cached = (chain, agent.uid, str(key.jwk["kid"]))
        found = self._cache.get(cached)
        if found is not None and now < found[1]:
            return found[0]
        credentials = CallCredentials(
            self._pair_token(chain, agent.uid, key, int(now)), self._delegation(chain, agent, key, int(now))
        )
        self._cache[cached] = (credentials, now + _REUSED_SECONDS)
        self._cache.move_to_end(cached)
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return credentials

    def direct_credentials(self, chain: CallChain, agent: AgentView, *, key_thumbprint: str) -> CallCredentials:
        """Return new credentials for direct calls, which need a proof with the caller's key. Raises: NoSigningKey."""
        now = self._clock.now()
        key = self._key(now)
        token = self._pair_token(chain, agent.uid, key, int(now), seconds=DIRECT_SECONDS, key_thumbprint=key_thumbprint)
        return CallCredentials(token, self._delegation(chain, agent, key, int(now)))

    def _key(self, now: float) -> RingKey:
        key = self._ring.signing_key(now)
        if key is None:
            raise NoSigningKey(self._ring.problem(now))
        return key

    def _pair_token(
        self,
        chain: CallChain,
        audience: str,
        key: RingKey,
        now: int,
        *,
        seconds: int = SECONDS,
        key_thumbprint: str | None = None,
    ) -> str:
        claims = PairTokenClaims(
            issuer=self._issuer,
            subject=chain.subject,
            actor=chain.actor,
            audience=audience,
            token_id=self._new_id(),
            issued_at=now,
            expires_at=now + seconds,
            key_thumbprint=key_thumbprint,
        )
        return mint(claims, signing_key(key.jwk))

    def _delegation(self, chain: CallChain, agent: AgentView, key: RingKey, now: int) -> str:
        end = now + task_seconds(agent.spec)
        claims = DelegationClaims(
            issuer=self._issuer,
            subject=chain.subject,
            actor=chain.actor,
            holder=f"agent:{agent.namespace}/{agent.name}",
            holder_uid=agent.uid,
            token_id=self._new_id(),
            issued_at=now,
            # The caller's delegation may have ended while the request waited for the agent.
            expires_at=max(now + 1, end if chain.deadline is None else min(end, chain.deadline)),
        )
        return mint_delegation(claims, signing_key(key.jwk))


def task_seconds(spec: AgentSpec) -> int:
    """Return how long a task of this agent may take: in the queue, in its turn, and for approvals."""
    if may_request_approval(spec):
        return MAX_SECONDS
    return min(MAX_SECONDS, _QUEUE_SECONDS + (spec.limits.max_turn_seconds or _TURN_SECONDS))
