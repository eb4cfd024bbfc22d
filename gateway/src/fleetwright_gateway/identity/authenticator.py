"""Turns the credential of a request into a principal.

A caller's own headers about its identity are never read. An agent is identified by the pod to which its token is bound.
A pod of an agent, and the ServiceAccount of an agent, are never treated as a person.
"""

import re
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.identity.errors import Unauthenticated
from fleetwright_gateway.identity.principals import AgentPrincipal, ClientPrincipal, PersonPrincipal, Principal, User
from fleetwright_gateway.identity.token_reviewer import TokenReviewer
from fleetwright_gateway.identity.token_shape import MAX_TOKEN, expiry_of

CHALLENGE: Final = 'Bearer realm="fleetwright-gateway"'
_CLIENT_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{43,128}")
"""The form of the tokens that the operator mints. Tokens of Kubernetes users have dots."""
_REFUSED: Final = "The credential is not accepted."


def bearer_of(values: Sequence[str]) -> str:
    """Return the token of the `Authorization` headers of a request.

    Raises:
        Unauthenticated: There is no token, or more than one.
    """
    if not values:
        raise Unauthenticated(
            "missing",
            "A Kubernetes token with the gateway's audience, or a client token of the agent, is required: "
            "Authorization: Bearer <token>.",
        )
    if len(values) > 1:
        raise Unauthenticated("ambiguous", "Exactly one Authorization header is accepted.")
    scheme, _, token = values[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > MAX_TOKEN or not token.isascii() or "," in token:
        raise Unauthenticated("malformed", "The Authorization header must be: Bearer <token>.")
    return token


class Authenticator:
    def __init__(
        self,
        reviewer: TokenReviewer,
        fleet: Fleet,
        *,
        audiences: Collection[str],
        issuers: Collection[str],
        clock: Clock,
    ) -> None:
        """Args: `issuers` may be empty if the API server's issuer is not known."""
        self._reviewer = reviewer
        self._fleet = fleet
        self._audiences = frozenset(audiences)
        self._issuers = frozenset(issuers)
        self._clock = clock

    async def authenticate(self, token: str, *, source: Callable[[], str | None] = lambda: None) -> Principal:
        """Return the principal of a token.

        Args:
            token: The credential of the request.
            source: Returns the source of the request, or None. It is called only if the API server is asked.

        Raises:
            Unauthenticated: The token is not accepted.
            TooManyReviews: Too many unknown tokens arrive.
            ReviewUnavailable: The API server cannot be asked.
        """
        if _CLIENT_TOKEN.fullmatch(token) is not None:
            return self._client(token)
        reviewed = self._reviewer.known(token)
        user = await self._review(token, source()) if reviewed is None else reviewed.user
        if user is None:
            raise Unauthenticated("review", _REFUSED)
        return self._principal(user)

    def _client(self, token: str) -> ClientPrincipal:
        """Return the client of an agent. The API server is not asked, because it does not know such tokens."""
        digest = sha256(token.encode()).hexdigest()
        agents = self._fleet.clients_with(digest, now=self._clock.now())
        if not agents:
            raise Unauthenticated("client", _REFUSED)
        return ClientPrincipal(sha256=digest, agents=agents)

    async def _review(self, token: str, source: str | None) -> User | None:
        now = self._clock.now()
        expiry = expiry_of(token, issuers=self._issuers, audiences=self._audiences, now=now)
        if expiry is None:
            raise Unauthenticated("shape", _REFUSED)
        return await self._reviewer.review(token, expiry=expiry, source=source)

    def _principal(self, user: User) -> Principal:
        account = user.service_account
        if account is None:
            return PersonPrincipal(user=user)
        namespace, name = account
        pod = user.pod
        if pod is not None and (agent := self._fleet.agent_of_pod(namespace, *pod)) is not None:
            # The pod's ServiceAccount is the agent's; the token must be one of this ServiceAccount as well.
            if self._fleet.account_of(agent) == name:
                return AgentPrincipal(namespace=agent.namespace, name=agent.name, uid=agent.uid)
            raise Unauthenticated("pod", _REFUSED)
        if self._fleet.agents_with_account(namespace, name) or self._fleet.is_managed_pod(namespace, pod):
            raise Unauthenticated("pod", _REFUSED)
        return PersonPrincipal(user=user)
