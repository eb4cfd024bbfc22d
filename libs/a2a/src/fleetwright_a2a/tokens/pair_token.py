"""Pair tokens: access tokens (RFC 9068) for exactly one callee, signed with ES256.

`sub` is the original principal. `act` is the calling chain. The callee verifies a token offline.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from joserfc.jwk import ECKey

from fleetwright_a2a.tokens.actors import Actor, encode_actor, parse_actor
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet, check_times, sign

MAX_SECONDS: Final = 300
"""The longest lifetime of a token."""
_TYPE: Final = "at+jwt"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTokenClaims:
    issuer: str
    subject: str
    actor: Actor
    audience: str
    """The uid of the callee's Agent object."""
    token_id: str
    issued_at: int
    expires_at: int
    key_thumbprint: str | None = None
    """The thumbprint of the caller's key (`cnf.jkt`), for a token that needs a proof of possession."""


def mint(claims: PairTokenClaims, key: ECKey) -> str:
    """Return a signed token.

    Raises:
        ValueError: The chain is too long, or the token would live too long.
    """
    if not 0 < claims.expires_at - claims.issued_at <= MAX_SECONDS:
        raise ValueError(f"a pair token lives for at most {MAX_SECONDS} seconds")
    payload: dict[str, Any] = {
        "iss": claims.issuer,
        "sub": claims.subject,
        "act": encode_actor(claims.actor),
        "client_id": claims.actor.subject,
        "aud": claims.audience,
        "jti": claims.token_id,
        "iat": claims.issued_at,
        "exp": claims.expires_at,
    }
    if claims.key_thumbprint is not None:
        payload["cnf"] = {"jkt": claims.key_thumbprint}
    return sign(payload, key, kind=_TYPE)


def verify(token: str, keys: KeySet, *, issuer: str, audience: str, now: float) -> PairTokenClaims:
    """Return the claims of a token that is valid now, for this audience.

    Raises:
        InvalidToken: The token is not accepted. The reason is for logs, not for the caller.
    """
    claims = keys.claims_of(token, kind=_TYPE, parse=_parsed)
    if claims.issuer != issuer:
        raise InvalidToken("the token has another issuer")
    if claims.audience != audience:
        raise InvalidToken("the token is for another audience")
    check_times(claims.issued_at, claims.expires_at, now)
    return claims


def _parsed(payload: bytes) -> PairTokenClaims:
    try:
        found = json.loads(payload)
        texts = [found[name] for name in ("iss", "sub", "aud", "jti")]
        times = [found["iat"], found["exp"]]
        thumbprint = found["cnf"]["jkt"] if "cnf" in found else None
        actor = parse_actor(found["act"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidToken("a claim is missing or malformed") from None
    whole = all(type(text) is str and text for text in texts) and all(type(time) is int for time in times)
    if not whole or not isinstance(thumbprint, str | None) or found.get("client_id") != actor.subject:
        raise InvalidToken("a claim is missing or malformed")
    if not 0 < times[1] - times[0] <= MAX_SECONDS:
        raise InvalidToken("the token lives too long")
    issuer, subject, audience, token_id = texts
    return PairTokenClaims(
        issuer=issuer,
        subject=subject,
        actor=actor,
        audience=audience,
        token_id=token_id,
        issued_at=times[0],
        expires_at=times[1],
        key_thumbprint=thumbprint,
    )
