"""Pair tokens: access tokens (RFC 9068) for exactly one callee, signed with ES256.

`sub` is the original principal. `act` is the calling chain, with the immediate actor outermost (RFC 8693 §4.1). The
callee verifies a token offline.
"""

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

MAX_DEPTH: Final = 8
"""The largest number of actors in a chain."""
MAX_SECONDS: Final = 300
"""The longest lifetime of a token."""
SKEW_SECONDS: Final = 30
"""The tolerated difference between the clocks of the issuer and the callee."""
_ALGORITHM: Final = "ES256"
_TYPE: Final = "at+jwt"
_MAX_TOKEN: Final = 8 * 1024
_MOST_CACHED: Final = 1024


class InvalidToken(Exception):  # noqa: N818 - an answer, not a failure
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Actor:
    subject: str
    """`agent:<namespace>/<name>` or `user:<name>`."""
    uid: str
    """The uid of the Agent object; empty for a person."""
    actor: "Actor | None" = None
    """The actor that called this actor; None for the first actor of the chain."""


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


def signing_key(jwk: Mapping[str, Any]) -> ECKey:
    """Return the private key of a JWK. Raises: ValueError."""
    return _key(jwk, private=True)


class KeySet:
    """Public keys by key id, and a bounded cache of the tokens that were verified with them."""

    def __init__(self, keys: Sequence[Mapping[str, Any]]) -> None:
        """Raises: ValueError: an entry is not a public key on P-256 with a key id."""
        self._keys = {str(jwk["kid"]): _key(jwk, private=False) for jwk in keys if jwk.get("kid")}
        if len(self._keys) != len(keys):
            raise ValueError("every key needs its own key id (kid)")
        self._verified: OrderedDict[bytes, PairTokenClaims] = OrderedDict()

    def claims_of(self, token: str) -> PairTokenClaims:
        """Return the claims of a token with a valid signature. Raises: InvalidToken."""
        digest = sha256(token.encode()).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._verified[digest] = self._opened(token)
            if len(self._verified) > _MOST_CACHED:
                self._verified.popitem(last=False)
        return claims

    def _opened(self, token: str) -> PairTokenClaims:
        if len(token) > _MAX_TOKEN:
            raise InvalidToken("the token is too large")
        try:
            found = jws.extract_compact(token.encode())
            key = self._keys[found.headers()["kid"]]
            header = found.headers()
            if header.get("alg") != _ALGORITHM or header.get("typ") != _TYPE:
                raise InvalidToken("the token has another type or algorithm")
            payload = jws.deserialize_compact(token, key, algorithms=[_ALGORITHM]).payload
        except KeyError:
            raise InvalidToken("the key of the token is not known") from None
        except (JoseError, ValueError, TypeError):
            raise InvalidToken("the signature is not valid") from None
        return _parsed(payload)


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
        "act": _encoded(claims.actor, MAX_DEPTH),
        "client_id": claims.actor.subject,
        "aud": claims.audience,
        "jti": claims.token_id,
        "iat": claims.issued_at,
        "exp": claims.expires_at,
    }
    if claims.key_thumbprint is not None:
        payload["cnf"] = {"jkt": claims.key_thumbprint}
    header = {"alg": _ALGORITHM, "typ": _TYPE, "kid": key.kid or key.thumbprint()}
    return jws.serialize_compact(header, json.dumps(payload, separators=(",", ":")), key, algorithms=[_ALGORITHM])


def verify(token: str, keys: KeySet, *, issuer: str, audience: str, now: float) -> PairTokenClaims:
    """Return the claims of a token that is valid now, for this audience.

    Raises:
        InvalidToken: The token is not accepted. The reason is for logs, not for the caller.
    """
    claims = keys.claims_of(token)
    if claims.issuer != issuer:
        raise InvalidToken("the token has another issuer")
    if claims.audience != audience:
        raise InvalidToken("the token is for another audience")
    if not claims.issued_at - SKEW_SECONDS <= now < claims.expires_at + SKEW_SECONDS:
        raise InvalidToken("the token is not valid at this time")
    return claims


def _key(jwk: Mapping[str, Any], *, private: bool) -> ECKey:
    try:
        key = ECKey.import_key(dict(jwk))
        right = jwk.get("kty") == "EC" and jwk.get("crv") == "P-256" and key.is_private == private
    except (JoseError, ValueError, TypeError, KeyError):
        right = False
    if not right:
        raise ValueError(f"not a {'private' if private else 'public'} key on P-256")
    return key


def _encoded(actor: Actor, depth: int) -> dict[str, Any]:
    if not depth:
        raise ValueError(f"a chain has at most {MAX_DEPTH} actors")
    before = {} if actor.actor is None else {"act": _encoded(actor.actor, depth - 1)}
    return {"sub": actor.subject, "uid": actor.uid, **before}


def _parsed(payload: bytes) -> PairTokenClaims:
    try:
        found = json.loads(payload)
        texts = [found[name] for name in ("iss", "sub", "aud", "jti")]
        times = [found["iat"], found["exp"]]
        thumbprint = found["cnf"]["jkt"] if "cnf" in found else None
        actor = _actor(found["act"], MAX_DEPTH)
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


def _actor(found: Any, depth: int) -> Actor:
    if not depth or type(found["sub"]) is not str or type(found["uid"]) is not str:
        raise ValueError("not an actor")
    return Actor(found["sub"], found["uid"], _actor(found["act"], depth - 1) if "act" in found else None)
