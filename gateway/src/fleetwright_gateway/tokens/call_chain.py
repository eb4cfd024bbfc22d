"""The chain of callers of a request: the caller itself, or the caller on behalf of a principal.

An agent that works for a principal sends the delegation of its task, and states the task. The delegation counts only
together with the token of the agent's own pod, and in its own task. A delegation that is not accepted is an error,
because the request must not silently become a request of the agent itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_a2a.authentication import decode_task_id
from fleetwright_a2a.tokens.actors import MAX_DEPTH, Actor
from fleetwright_a2a.tokens.delegation_token import DelegationClaims, is_bound, verify_delegation
from fleetwright_a2a.tokens.keys import InvalidToken
from fleetwright_gateway.identity.principals import AgentPrincipal, Principal
from fleetwright_gateway.tokens.key_ring import KeyRing

_HEADER: Final = "Fleetwright-Delegation"
_TASK: Final = "Fleetwright-Task"


class InvalidDelegation(Exception):  # noqa: N818 - an answer to the caller
    """The request has a delegation that this caller may not use."""


class WrongTask(InvalidDelegation):
    """The request does not state the task of its delegation."""


@dataclass(frozen=True, slots=True)
class CallChain:
    subject: str
    """The original principal."""
    actor: Actor
    """The chain of actors; the caller is outermost."""
    deadline: int | None = None
    """The end of the caller's delegation in seconds since the epoch; None without a delegation."""

    @property
    def is_delegated(self) -> bool:
        return self.deadline is not None


def own_chain(caller: Principal) -> CallChain:
    """Return the chain of a caller that calls for itself."""
    return CallChain(caller.subject, Actor(caller.subject, caller.uid))


class CallChains:
    def __init__(self, ring: KeyRing, *, issuer: str, now: Callable[[], float]) -> None:
        """
        Args:
            ring: The keys of the gateway itself.
            issuer: The issuer of the gateway's tokens.
            now: Returns seconds since the epoch.
        """
        self._ring = ring
        self._issuer = issuer
        self._now = now

    def of(self, caller: Principal, delegations: Sequence[str], tasks: Sequence[str]) -> CallChain:
        """Return the chain of a request.

        Args:
            caller: The authenticated caller.
            delegations: The values of the header `Fleetwright-Delegation`.
            tasks: The values of the header `Fleetwright-Task`. They count only with a delegation.

        Raises:
            InvalidDelegation: The caller may not use the delegation.
        """
        if not delegations:
            return own_chain(caller)
        if len(delegations) > 1 or not isinstance(caller, AgentPrincipal):
            raise InvalidDelegation(f"{_HEADER}: only an agent may send one delegation. Leave the header out.")
        claims = self._verified(delegations[0])
        if claims is None or (claims.holder, claims.holder_uid) != (caller.subject, caller.uid):
            sentence = f"{_HEADER}: the delegation was not issued to this agent, or it has expired."
            raise InvalidDelegation(f"{sentence} Use the delegation of the current task.")
        _check_task(claims, tasks)
        if claims.actor.depth >= MAX_DEPTH:
            raise InvalidDelegation(f"{_HEADER}: {MAX_DEPTH} callers are already in the chain. Answer without calling.")
        return CallChain(claims.subject, Actor(caller.subject, caller.uid, claims.actor), claims.expires_at)

    def _verified(self, token: str) -> DelegationClaims | None:
        now = self._now()
        try:
            claims = verify_delegation(token, self._ring.verifier(), issuer=self._issuer, now=now)
        except (InvalidToken, ValueError):
            return None
        if not is_bound(token, self._ring.task_secrets()):
            return None
        # The gateway reads its own clock twice, so no difference between clocks is tolerated.
        return claims if now < claims.expires_at else None


def _check_task(claims: DelegationClaims, tasks: Sequence[str]) -> None:
    """Raises: WrongTask."""
    if len(tasks) != 1:
        sentence = f"{_TASK}: a request with a delegation needs this header exactly once."
        raise WrongTask(f"{sentence} Send the id of the current task.")
    if decode_task_id(tasks[0]) != claims.task:
        sentence = f"{_TASK}: the delegation was issued for another task."
        raise WrongTask(f"{sentence} Send the delegation of the task that this header names.")
