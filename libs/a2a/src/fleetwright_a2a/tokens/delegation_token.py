"""Delegation tokens: the right of one agent to act for a principal in a task, while the agent works on that task.

The gateway issues a delegation to the agent that it calls, and accepts the delegation only together with the token of
that agent's own pod. `sub` is the original principal, and `act` is the chain of the agent's callers. If the agent calls
another agent with its delegation, the gateway issues a delegation for that other agent. The new delegation never lives
longer than the one that was used for the call.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from joserfc.jwk import ECKey

from fleetwright_a2a.tokens.actors import Actor, encode_actor, parse_actor
from fleetwright_a2a.tokens.keys import InvalidToken, KeySet, check_times, sign

MAX_SECONDS: Final = 24 * 3600
"""The longest lifetime of a delegation."""
_TYPE: Final = "fleetwright-delegation+jwt"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationClaims:
    issuer: str
    """The gateway, which is also the only audience."""
    subject: str
    """The original principal."""
    actor: Actor
    """The chain of callers, without the holder. The holder's immediate caller is outermost."""
    holder: str
    """The agent that may use the delegation: `agent:<namespace>/<name>`."""
    holder_uid: str
    """The uid of the holder's Agent object."""
    token_id: str
    issued_at: int
    expires_at: int


def mint_delegation(claims: DelegationClaims, key: ECKey) -> str:
    """Return a signed delegation.

    Raises:
        ValueError: The chain is too long, or the delegation would live too long.
    """
    if not 0 < claims.expires_at - claims.issued_at <= MAX_SECONDS:
        raise ValueError(f"a delegation lives for at most {MAX_SECONDS} seconds")
    payload: dict[str, Any] = {
        "iss": claims.issuer,
        "aud": claims.issuer,
        "sub": claims.subject,
        "act": encode_actor(claims.actor),
        "azp": claims.holder,
        "azp_uid": claims.holder_uid,
        "jti": claims.token_id,
        "iat": claims.issued_at,
        "exp": claims.expires_at,
    }
    return sign(payload, key, kind=_TYPE)


def verify_delegation(token: str, keys: KeySet, *, issuer: str, now: float) -> DelegationClaims:
    """Return the claims of a delegation that is valid now.

    This function does not check the holder. The gateway requires that the holder has sent the request. A called agent
    requires that it is itself the holder.

    Raises:
        InvalidToken: The delegation is not accepted. The reason is for logs, not for the agent that sent it.
    """
    claims = keys.claims_of(token, kind=_TYPE, parse=_parsed)
    if claims.issuer != issuer:
        raise InvalidToken("the delegation has another issuer")
    check_times(claims.issued_at, claims.expires_at, now)
    return claims


def _parsed(payload: bytes) -> DelegationClaims:
    try:
        found = json.loads(payload)
        texts = [found[name] for name in ("iss", "sub", "azp", "azp_uid", "jti")]
        times = [found["iat"], found["exp"]]
        actor = parse_actor(found["act"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidToken("a claim is missing or malformed") from None
    whole = all(type(text) is str and text for text in texts) and all(type(time) is int for time in times)
    if not whole or found.get("aud") != found["iss"]:
        raise InvalidToken("a claim is missing or malformed")
    if not 0 < times[1] - times[0] <= MAX_SECONDS:
        raise InvalidToken("the delegation lives too long")
    issuer, subject, holder, holder_uid, token_id = texts
    return DelegationClaims(
        issuer=issuer,
        subject=subject,
        actor=actor,
        holder=holder,
        holder_uid=holder_uid,
        token_id=token_id,
        issued_at=times[0],
        expires_at=times[1],
    )
