"""Authentication by the tokens that the gateway signs for one call of one agent.

The agent verifies a token offline, with the keys that the operator mounts. The owner of a task is the original
principal together with the immediate actor, so two agents that act for one person share nothing.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from fleetwright_a2a.authentication import AuthenticationFailure, Delegation
from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.callers import CallerKind, person
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.gateway import GatewayKeys
from fleetwright_agent.server.dpop import PresentedProof, Proofs, refusal

if TYPE_CHECKING:
    from fleetwright_a2a.tokens.actors import Actor
    from fleetwright_a2a.tokens.keys import KeySet
    from fleetwright_a2a.tokens.pair_token import PairTokenClaims

_AGENT: Final = re.compile(r"agent:[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z]([-a-z0-9]*[a-z0-9])?")
_USER: Final = "user:"
_MAX_NAME: Final = 512
_REFUSED: Final = AuthenticationFailure("gateway", "The token is not accepted.")


@dataclass(frozen=True, slots=True)
class TrustedGateway:
    issuer: str
    audience: str
    keys: "KeySet"
    revoked: Mapping[str, int] = field(default_factory=dict)
    """By the uid of a caller: tokens that were issued at this time or earlier are refused."""


@dataclass(frozen=True, slots=True)
class GatewayCaller:
    """The caller of a request that the gateway has forwarded."""

    owner: str
    delegation: Delegation | None = None
    chain: tuple[str, ...] = ()
    """The agents that the request came through, the first caller first."""


def parse_gateway_keys(raw: bytes) -> TrustedGateway:
    """Parse `gateway.json`.

    Raises:
        ValueError: The file is invalid. The text of the error never repeats the content of the file.
    """
    # Imported lazily: most agents have no gateway, and the import takes a tenth of the startup time.
    from fleetwright_a2a.tokens.keys import KeySet

    try:
        found = GatewayKeys.model_validate_json(raw)
    except ValidationError as error:
        places = sorted({".".join(str(step) for step in each["loc"]) for each in error.errors()})
        raise ValueError(f"check {', '.join(places) or 'its shape'}") from None
    revoked = {each.caller: each.not_before for each in found.revoked}
    return TrustedGateway(found.issuer, found.audience, KeySet(found.keys), revoked)


def looks_signed(token: str) -> bool:
    """Return whether a token has the shape of a JWT. Tokens that the operator mints never have this shape."""
    return token.startswith("eyJ") and token.count(".") == 2


class GatewayTokens:
    def __init__(
        self, trust: FileWatcher[TrustedGateway], *, addresses: Callable[[], Collection[str]], clock: Clock
    ) -> None:
        """Args: `addresses` returns the addresses by which callers may know this agent, without the path of A2A."""
        self._trust = trust
        self._addresses = addresses
        self._clock = clock
        self._proofs: Proofs | None = None

    @property
    def is_trusted(self) -> bool:
        """True if the operator has mounted the keys of a gateway."""
        return self._trust.recent()[0] is not None

    def identify(
        self, token: str, delegations: Sequence[str] = (), proof: PresentedProof | None = None
    ) -> GatewayCaller | AuthenticationFailure:
        """Return the caller, or the reason why the token, the delegation or the proof is not accepted.

        Args:
            token: The pair token.
            delegations: The values of the header `Fleetwright-Delegation`.
            proof: The proof, if the token has the scheme `DPoP`.
        """
        found = self._verified(token, delegations)
        if found is None:
            return refusal("invalid_token") if proof is not None else _REFUSED
        caller, thumbprint = found
        if proof is None:
            # A token that is bound to a key may be stolen, so it is never accepted without a proof.
            return caller if thumbprint is None else refusal("invalid_token")
        if thumbprint is None:
            return refusal("invalid_token")
        if self._proofs is None:
            self._proofs = Proofs(self._addresses)
        return self._proofs.refusal(token, thumbprint, proof, now=self._clock.now()) or caller

    def _verified(self, token: str, delegations: Sequence[str]) -> "tuple[GatewayCaller, str | None] | None":
        """Return the caller, and the thumbprint of the key to which the token is bound."""
        # The cached keys may be outdated, and a new key must be accepted at once.
        for trust, _ in (self._trust.recent(), self._trust.read()):
            if trust is not None and (found := _caller(trust, token, delegations, now=self._clock.now())) is not None:
                return found
        return None


def _caller(
    trust: TrustedGateway, token: str, delegations: Sequence[str], *, now: float
) -> tuple[GatewayCaller, str | None] | None:
    from fleetwright_a2a.tokens.keys import InvalidToken
    from fleetwright_a2a.tokens.pair_token import verify

    try:
        claims = verify(token, trust.keys, issuer=trust.issuer, audience=trust.audience, now=now)
        # Only the immediate caller counts, because its permission decides about access.
        if claims.issued_at <= trust.revoked.get(claims.actor.uid, -1):
            raise InvalidToken("the permission of the caller was withdrawn")
        delegation = _delegation(trust, claims, delegations, now=now) if delegations else None
    except InvalidToken:
        return None
    owner = owner_of(claims)
    return None if owner is None else (GatewayCaller(owner, delegation, chain_of(claims)), claims.key_thumbprint)


def _delegation(
    trust: TrustedGateway, claims: "PairTokenClaims", delegations: Sequence[str], *, now: float
) -> Delegation:
    """Return the delegation of a request. It must be for this agent, and for the callers that the pair token names.

    Raises: InvalidToken.
    """
    from fleetwright_a2a.tokens.delegation_token import verify_delegation
    from fleetwright_a2a.tokens.keys import InvalidToken

    (token, *others) = delegations
    found = verify_delegation(token, trust.keys, issuer=trust.issuer, now=now)
    if others or found.holder_uid != trust.audience or (found.subject, found.actor) != (claims.subject, claims.actor):
        raise InvalidToken("the delegation belongs to another request")
    return Delegation(token, found.expires_at, found.task)


def owner_of(claims: "PairTokenClaims") -> str | None:
    """Return the owner of the data that the call creates, or None if the chain is inconsistent.

    The owner is `agent:<namespace>/<name>` for an agent that calls for itself, and `user:<name>` for a person. For an
    agent that acts for another principal, it is `<principal> via agent:<namespace>/<name>`. Names of persons are
    percent-encoded, so that no name can look like another owner.
    """
    principal, actor = _principal(claims.subject), _principal(claims.actor.subject)
    if principal is None or actor is None:
        return None
    if principal == actor:
        return principal
    return f"{principal} via {actor}" if actor.startswith(f"{CallerKind.AGENT}:") else None


def chain_of(claims: "PairTokenClaims") -> tuple[str, ...]:
    """Return the agents of the calling chain, the first caller first."""
    subjects: list[str] = []
    actor: Actor | None = claims.actor
    while actor is not None:
        subjects.append(actor.subject)
        actor = actor.actor
    if claims.subject not in subjects:
        subjects.append(claims.subject)
    return tuple(subject for subject in reversed(subjects) if _AGENT.fullmatch(subject))


def _principal(subject: str) -> str | None:
    if subject.startswith(_USER):
        name = subject.removeprefix(_USER)
        return person(name) if 0 < len(name) <= _MAX_NAME else None
    return subject if _AGENT.fullmatch(subject) else None
