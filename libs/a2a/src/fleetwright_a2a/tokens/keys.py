"""Keys on P-256: signing of compact tokens, and their verification with a bounded cache."""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, TypeVar

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

SKEW_SECONDS: Final = 30
"""The tolerated difference between the clocks of the issuer and the verifier."""
ALGORITHM: Final = "ES256"
_MAX_TOKEN: Final = 8 * 1024
_MOST_CACHED: Final = 1024
T = TypeVar("T")
SigningKey = ECKey
"""A private key on P-256. Other packages use this name, so that they need not import the JOSE library."""


class InvalidToken(Exception):  # noqa: N818 - an answer, not a failure
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def signing_key(jwk: Mapping[str, Any]) -> ECKey:
    """Return the private key of a JWK. Raises: ValueError."""
    return _key(jwk, private=True)


def verification_key(jwk: Mapping[str, Any]) -> ECKey:
    """Return the public key of a JWK, which must not contain a private part. Raises: ValueError."""
    return _key(jwk, private=False)


def sign(claims: Mapping[str, Any], key: ECKey, *, kind: str) -> str:
    """Return a signed token. Args: `kind` is the type in its header."""
    header = {"alg": ALGORITHM, "typ": kind, "kid": key.kid or key.thumbprint()}
    return jws.serialize_compact(header, json.dumps(claims, separators=(",", ":")), key, algorithms=[ALGORITHM])


class KeySet:
    """Public keys by key id, and the claims of the tokens that were verified with them."""

    def __init__(self, keys: Sequence[Mapping[str, Any]]) -> None:
        """Raises: ValueError: an entry is not a public key on P-256 with a key id."""
        self._keys = {str(jwk["kid"]): _key(jwk, private=False) for jwk in keys if jwk.get("kid")}
        if len(self._keys) != len(keys):
            raise ValueError("every key needs its own key id (kid)")
        self._verified: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def claims_of(self, token: str, *, kind: str, parse: Callable[[bytes], T]) -> T:
        """Return the claims of a token with a valid signature.

        Args:
            token: The token in its compact form.
            kind: The type that the header must state.
            parse: Parses the payload. Each kind of token has exactly one parser.

        Raises:
            InvalidToken: The token is not accepted.
        """
        digest = (kind, sha256(token.encode()).digest())
        claims: T | None = self._verified.get(digest)
        if claims is None:
            claims = self._verified[digest] = parse(self._payload(token, kind))
            if len(self._verified) > _MOST_CACHED:
                self._verified.popitem(last=False)
        return claims

    def _payload(self, token: str, kind: str) -> bytes:
        if len(token) > _MAX_TOKEN:
            raise InvalidToken("the token is too large")
        try:
            header = jws.extract_compact(token.encode()).headers()
            key = self._keys[header["kid"]]
            if header.get("alg") != ALGORITHM or header.get("typ") != kind:
                raise InvalidToken("the token has another type or algorithm")
            return jws.deserialize_compact(token, key, algorithms=[ALGORITHM]).payload
        except KeyError:
            raise InvalidToken("the key of the token is not known") from None
        except (JoseError, ValueError, TypeError):
            raise InvalidToken("the signature is not valid") from None


def check_times(issued_at: int, expires_at: int, now: float) -> None:
    """Check that a token with these times is valid now. Raises: InvalidToken."""
    if not issued_at - SKEW_SECONDS <= now < expires_at + SKEW_SECONDS:
        raise InvalidToken("the token is not valid at this time")


def _key(jwk: Mapping[str, Any], *, private: bool) -> ECKey:
    try:
        key = ECKey.import_key(dict(jwk))
        right = jwk.get("kty") == "EC" and jwk.get("crv") == "P-256" and key.is_private == private
    except (JoseError, ValueError, TypeError, KeyError):
        right = False
    if not right:
        raise ValueError(f"not a {'private' if private else 'public'} key on P-256")
    return key
