"""Issues the tokens with which the gateway calls agents on behalf of its callers.

A request to an agent carries a pair token, which the agent verifies. A message also carries a delegation, with which
the agent may act for the principal while it works on the task of the message. The signed parts of both are used for
several requests, and a code binds each delegation to one task.
"""

import secrets
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.tokens.delegation_token import (
    MAX_SECONDS,
    DelegationClaims,
    bind_task,
    sign_grant,
    task_secret,
)
from fleetwright_a2a.tokens.keys import SigningKey, signing_key
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
class DirectCredentials:
    """The credentials with which an agent calls another agent directly."""

    pair_token: str = field(repr=False)
    delegation: str = field(repr=False)


class PairTokenIssuer:
    def __init__(
        self,
        ring: KeyRing,
        *,
        issuer: str,
        clock: Clock,
        new_id: Callable[[], str] = lambda: secrets.token_urlsafe(16),
        new_task_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._ring = ring
        self._issuer = issuer
        self._clock = clock
        self._new_id = new_id
        self._new_task_id = new_task_id
        self._signer: tuple[RingKey, SigningKey] | None = None
        self._cache: OrderedDict[tuple[int | None, CallChain, str, str], tuple[str, float]] = OrderedDict()

    @property
    def ring(self) -> KeyRing:
        return self._ring

    def pair_token_for(self, chain: CallChain, agent: AgentView) -> str:
        """Return the token for requests of this chain to one agent. It is used again for half a minute.

        Raises:
            NoSigningKey: No key may sign at the moment.
        """
        now = self._clock.now()
        key = self._key(now)
        return self._reused(None, chain, agent, key, now, lambda: self._pair_token(chain, agent.uid, key, int(now)))

    def delegation_for(self, chain: CallChain, agent: AgentView, task_id: str) -> str:
        """Return the delegation for one message of this chain to an agent.

        Args: `task_id` is the task that the message names; empty if the message begins a task. The agent then uses the
        id in the delegation for this task.

        Raises:
            NoSigningKey: No key may sign at the moment.
        """
        now = self._clock.now()
        key = self._key(now)
        grant = self._reused(
            task_seconds(agent.spec), chain, agent, key, now, lambda: self._grant(chain, agent, key, int(now))
        )
        return self._bound(grant, task_id, key)

    def _reused(
        self,
        life: int | None,
        chain: CallChain,
        agent: AgentView,
        key: RingKey,
        now: float,
        signed: Callable[[], str],
    ) -> str:
        """Return a token that was signed during the last half minute, or sign a new one.

        Args: `life` is the time that a delegation lasts, in seconds; None for a pair token.
        """
        cached = (life, chain, agent.uid, str(key.jwk["kid"]))
        found = self._cache.get(cached)
        if found is not None and now < found[1]:
            return found[0]
        token = signed()
        reused_until = now + _REUSED_SECONDS
        # A delegation ends with that of the caller. After this time, a new one may still be needed for a late request.
        self._cache[cached] = (token, reused_until if chain.deadline is None else min(reused_until, chain.deadline))
        self._cache.move_to_end(cached)
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)
        return token

    def direct_credentials(
        self, chain: CallChain, agent: AgentView, *, task_id: str, key_thumbprint: str
    ) -> DirectCredentials:
        """Return new credentials for direct calls, which need a proof with the caller's key. Raises: NoSigningKey.

        Args: `task_id` is the task of the agent that the caller will continue; empty if it will begin a task.
        """
        now = self._clock.now()
        key = self._key(now)
        token = self._pair_token(chain, agent.uid, key, int(now), seconds=DIRECT_SECONDS, key_thumbprint=key_thumbprint)
        return DirectCredentials(token, self._bound(self._grant(chain, agent, key, int(now)), task_id, key))

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
        return mint(claims, self._signing_key(key))

    def _bound(self, grant: str, task_id: str, key: RingKey) -> str:
        return bind_task(grant, task_id or self._new_task_id(), task_secret(key.jwk))

    def _grant(self, chain: CallChain, agent: AgentView, key: RingKey, now: int) -> str:
        end = now + task_seconds(agent.spec)
        claims = DelegationClaims(
            issuer=self._issuer,
            subject=chain.subject,
            actor=chain.actor,
            holder=f"agent:{agent.namespace}/{agent.name}",
            holder_uid=agent.uid,
            task="",
            token_id=self._new_id(),
            issued_at=now,
            # The caller's delegation may have ended while the request waited for the agent.
            expires_at=max(now + 1, end if chain.deadline is None else min(end, chain.deadline)),
        )
        return sign_grant(claims, self._signing_key(key))

    def _signing_key(self, key: RingKey) -> SigningKey:
        """Return the parsed key. Parsing takes about as long as a signature, so the parsed key is cached."""
        if self._signer is None or self._signer[0] is not key:
            self._signer = (key, signing_key(key.jwk))
        return self._signer[1]


def task_seconds(spec: AgentSpec) -> int:
    """Return how long a task of this agent may take: in the queue, in its turn, and for approvals."""
    if may_request_approval(spec):
        return MAX_SECONDS
    return min(MAX_SECONDS, _QUEUE_SECONDS + (spec.limits.max_turn_seconds or _TURN_SECONDS))
