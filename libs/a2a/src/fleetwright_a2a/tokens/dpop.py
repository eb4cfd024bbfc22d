"""Creates and verifies proofs of possession (DPoP, RFC 9449). The verifier uses nonces and a replay cache.

A proof is signed with ES256 by the key of the sender. It is valid for one method, one URL and one token. A verifier
accepts it once, within a minute. The nonce comes from the verifier, so a proof cannot be created in advance.
"""

import base64
import hmac
import json
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from fleetwright_a2a.tokens.keys import ALGORITHM, InvalidToken, verification_key

HEADER: Final = "DPoP"
NONCE_HEADER: Final = "DPoP-Nonce"
MAX_AGE_SECONDS: Final = 60
"""The largest difference between the time of a proof and the verifier's clock."""
_TYPE: Final = "dpop+jwt"
_NONCE_SECONDS: Final = 120
"""The length of a time bucket. A nonce is valid in its own bucket and in the next one."""
_MAX_PROOF: Final = 2048
_MOST_REMEMBERED: Final = 16_384
_MOST_KEYS: Final = 256
_PORTS: Final = {"http": 80, "https": 443}


class InvalidProof(InvalidToken):
    """The proof is missing or not accepted."""


class NonceRequired(InvalidProof):
    """The proof is correct, but it has no current nonce."""


def new_proof_key() -> ECKey:
    """Return a new key, which its holder keeps in memory."""
    return ECKey.generate_key("P-256")


def thumbprint(key: ECKey) -> str:
    """Return the SHA-256 thumbprint of a key (RFC 7638)."""
    return key.thumbprint()


def make_proof(
    key: ECKey, *, method: str, url: str, now: float, token: str = "", nonce: str = "", proof_id: str = ""
) -> str:
    """Return the value of the header `DPoP` for one request.

    Args: `token` is the token of the request; empty at a token endpoint.
    """
    claims: dict[str, Any] = {
        "jti": proof_id or secrets.token_urlsafe(16),
        "htm": method,
        "htu": normalised(url),
        "iat": int(now),
        **({"ath": _hash(token)} if token else {}),
        **({"nonce": nonce} if nonce else {}),
    }
    public = {name: value for name, value in key.as_dict(private=False).items() if name in {"kty", "crv", "x", "y"}}
    header = {"alg": ALGORITHM, "typ": _TYPE, "jwk": public}
    return jws.serialize_compact(header, json.dumps(claims, separators=(",", ":")), key, algorithms=[ALGORITHM])


def normalised(url: str) -> str:
    """Return a URL without query and fragment, with host and scheme in lower case and no default port.

    Raises:
        ValueError: The text is no HTTP URL.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _PORTS or not parts.hostname or "@" in parts.netloc:
        raise ValueError("not an HTTP URL")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, _PORTS[scheme]) else f":{parts.port}"
    return f"{scheme}://{host}{port}{parts.path or '/'}"


class Nonces:
    """Stateless nonces: each is an HMAC over a time bucket. All verifiers with the same secret accept them."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def current(self, now: float) -> str:
        return self._of(int(now) // _NONCE_SECONDS)

    def accepts(self, nonce: str, now: float) -> bool:
        bucket = int(now) // _NONCE_SECONDS
        return nonce.isascii() and any(
            hmac.compare_digest(nonce.encode(), self._of(each).encode()) for each in (bucket, bucket - 1)
        )

    def _of(self, bucket: int) -> str:
        digest = hmac.new(self._secret, b"dpop-nonce:%d" % bucket, sha256).digest()
        return base64.urlsafe_b64encode(digest[:18]).decode()


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """The request that a proof must name."""

    method: str
    urls: Sequence[str]
    """The URLs by which the sender may know the endpoint."""
    token: str = ""
    """The token of the request; empty at a token endpoint."""
    key_thumbprint: str | None = None
    """The thumbprint to which the token is bound; None accepts any key."""


class ProofVerifier:
    """Verifies proofs, and remembers those that it has accepted in a bounded replay cache of this process."""

    def __init__(self, *, most: int = _MOST_REMEMBERED) -> None:
        self._seen: OrderedDict[bytes, float] = OrderedDict()
        self._keys: OrderedDict[str, ECKey] = OrderedDict()
        self._most = most

    def verify(self, proofs: Sequence[str], request: ProofRequest, *, nonces: Nonces, now: float) -> str:
        """Return the thumbprint of the key that signed the proof.

        Args:
            proofs: The values of the header `DPoP`.
            request: The request that the proof must name.
            nonces: The nonces of this verifier.
            now: Seconds since the epoch.

        Raises:
            NonceRequired: The sender must repeat the request with the current nonce.
            InvalidProof: The proof is not accepted. The reason is for logs, not for the sender.
        """
        if len(proofs) != 1:
            raise InvalidProof("exactly one proof is required")
        key, claims = self._opened(proofs[0])
        found = thumbprint(key)
        if request.key_thumbprint is not None and not hmac.compare_digest(found, request.key_thumbprint):
            raise InvalidProof("the proof is signed with another key")
        _check(claims, request, now)
        nonce = claims.get("nonce", "")
        if not isinstance(nonce, str) or not nonces.accepts(nonce, now):
            raise NonceRequired("the proof needs the current nonce")
        self._remember(f"{found} {claims['jti']}", now)
        return found

    def _opened(self, proof: str) -> tuple[ECKey, dict[str, Any]]:
        if len(proof) > _MAX_PROOF:
            raise InvalidProof("the proof is too large")
        try:
            header = jws.extract_compact(proof.encode()).headers()
            if header.get("typ") != _TYPE or header.get("alg") != ALGORITHM:
                raise InvalidProof("the proof has another type or algorithm")
            key = self._key(header["jwk"])
            claims = json.loads(jws.deserialize_compact(proof, key, algorithms=[ALGORITHM]).payload)
        except (AttributeError, JoseError, ValueError, TypeError, KeyError, RecursionError):
            # Without a JSON object as header, joserfc returns another value than a dictionary.
            raise InvalidProof("the proof is malformed, or its signature is not valid") from None
        if not isinstance(claims, dict):
            raise InvalidProof("the proof has no claims")
        return key, claims

    def _key(self, jwk: Mapping[str, Any]) -> ECKey:
        """Return the public key of a proof. Parsing a key takes longer than a verification. Raises: ValueError."""
        text = json.dumps(jwk, sort_keys=True)
        key = self._keys.get(text)
        if key is None:
            key = self._keys[text] = verification_key(jwk)
            if len(self._keys) > _MOST_KEYS:
                self._keys.popitem(last=False)
        return key

    def _remember(self, name: str, now: float) -> None:
        digest = sha256(name.encode()).digest()
        while self._seen and (next(iter(self._seen.values())) <= now or len(self._seen) >= self._most):
            self._seen.popitem(last=False)
        if digest in self._seen:
            raise InvalidProof("the proof was used before")
        # After this time, the proof is too old, whatever the clock of its sender was.
        self._seen[digest] = now + 2 * MAX_AGE_SECONDS


def _check(claims: Mapping[str, Any], request: ProofRequest, now: float) -> None:
    """Raises: InvalidProof."""
    issued, name, url = claims.get("iat"), claims.get("jti"), claims.get("htu")
    if type(issued) is not int or not isinstance(name, str) or not name or not isinstance(url, str):
        raise InvalidProof("a claim is missing or malformed")
    if not (name.isascii() and url.isascii()):
        raise InvalidProof("a claim is missing or malformed")
    if not now - MAX_AGE_SECONDS <= issued <= now + MAX_AGE_SECONDS:
        raise InvalidProof("the proof is too old, or from the future")
    if claims.get("htm") != request.method:
        raise InvalidProof("the proof is for another method")
    try:
        named = normalised(url)
    except ValueError:
        raise InvalidProof("the proof names no URL") from None
    if named not in [normalised(each) for each in request.urls]:
        raise InvalidProof("the proof is for another URL")
    if (claims.get("ath") or "") != (_hash(request.token) if request.token else ""):
        raise InvalidProof("the proof is for another token")


def _hash(token: str) -> str:
    return base64.urlsafe_b64encode(sha256(token.encode()).digest()).rstrip(b"=").decode()
