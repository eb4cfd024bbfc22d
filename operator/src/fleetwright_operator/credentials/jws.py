"""JOSE keys and signatures: ES256 on P-256, key ids by RFC 7638, payloads by RFC 8785.

Signing is deterministic (RFC 6979): a signature depends on the key and the payload only, so signatures need not be
stored, and signing again gives the same bytes.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256

_CURVE = ec.SECP256R1()
_ES256 = ec.ECDSA(SHA256(), deterministic_signing=True)
_BYTES = 32

Signature = dict[str, str]
"""The `protected` and `signature` members of a flattened JWS, without the payload."""


class DamagedKey(ValueError):  # noqa: N818 - named by what it is
    """The text is not a private key. The message never repeats the text."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    kid: str
    """Derived from the key, so comparing it compares the keys."""
    public: Mapping[str, str] = field(compare=False)
    """The public JWK."""
    _private: ec.EllipticCurvePrivateKey = field(repr=False, compare=False)

    def sign(self, payload: bytes, *, jku: str = "") -> Signature:
        """Sign a payload. `jku` is the URL of the key set; it is left out when empty."""
        header = {"alg": "ES256", "kid": self.kid, "typ": "JOSE", **({"jku": jku} if jku else {})}
        protected = _text(canonical(header))
        r, s = utils.decode_dss_signature(self._private.sign(f"{protected}.{_text(payload)}".encode(), _ES256))
        return {"protected": protected, "signature": _text(r.to_bytes(_BYTES, "big") + s.to_bytes(_BYTES, "big"))}


def canonical(value: Any) -> bytes:
    """Return the canonical JSON of RFC 8785."""
    return rfc8785.dumps(value)


def new_secret() -> str:
    """Return the secret number of a new key, as the `d` member of a JWK."""
    return _text(ec.generate_private_key(_CURVE).private_numbers().private_value.to_bytes(_BYTES, "big"))


def signing_key(secret: str) -> SigningKey:
    """Return the key for the `d` member of a JWK. Everything else about a key is derived from it.

    Raises:
        DamagedKey: The text is not a private key.
    """
    try:
        raw = base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4))
        private = ec.derive_private_key(int.from_bytes(raw, "big"), _CURVE)
    except (ValueError, TypeError, binascii.Error):
        raise DamagedKey("not a private key on P-256") from None
    point = private.public_key().public_numbers()
    core = {"crv": "P-256", "kty": "EC", "x": _coordinate(point.x), "y": _coordinate(point.y)}
    kid = _text(hashlib.sha256(canonical(core)).digest())
    return SigningKey(kid, {**core, "alg": "ES256", "kid": kid, "use": "sig"}, private)


def _coordinate(number: int) -> str:
    return _text(number.to_bytes(_BYTES, "big"))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
