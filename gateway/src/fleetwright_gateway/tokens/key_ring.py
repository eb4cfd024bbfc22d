"""The keys that sign pair tokens: a mounted file that the operator writes and rotates.

The operator publishes a new key to every agent at once. The key signs five minutes later, so every agent knows the key
of each token. A key may state another time in `notBefore`. The first key of an installation signs at once.
"""

import hmac
import json
import logging
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from fleetwright_a2a.tokens.delegation_token import task_secret
from fleetwright_a2a.tokens.keys import KeySet

_logger = logging.getLogger(__name__)
_LEAD_SECONDS: Final = 300
_PUBLIC: Final = ("kty", "crv", "x", "y", "kid", "alg", "use")


@dataclass(frozen=True, slots=True)
class RingKey:
    jwk: dict[str, Any]
    """The private JWK."""
    not_before: float

    def __repr__(self) -> str:
        return f"RingKey({self.jwk.get('kid')})"

    @property
    def public(self) -> dict[str, Any]:
        return {name: self.jwk[name] for name in _PUBLIC if name in self.jwk}


class KeyRing:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._keys: tuple[RingKey, ...] = ()
        self._problem = f"{path} is not mounted"
        self._verifier: tuple[tuple[RingKey, ...], KeySet] | None = None

    def signing_key(self, now: float) -> RingKey | None:
        """Return the key that signs at this time, or None if no key may sign."""
        keys = sorted(self.keys(), key=lambda key: key.not_before)
        usable = [key for key in keys if key.not_before <= now]
        return usable[-1] if usable else keys[0] if keys else None

    def key_set(self) -> dict[str, Any]:
        """Return the public JWK set, with keys that do not sign yet."""
        return {"keys": [key.public for key in self.keys()]}

    def verifier(self) -> KeySet:
        """Return the public keys, for tokens that the gateway itself has issued. Raises: ValueError."""
        keys = self.keys()
        if self._verifier is None or self._verifier[0] is not keys:
            self._verifier = (keys, KeySet([key.public for key in keys]))
        return self._verifier[1]

    def shared_secret(self, now: float) -> bytes | None:
        """Return a secret that all replicas of the gateway derive from the signing key; None if no key may sign."""
        key = self.signing_key(now)
        return None if key is None else hmac.new(str(key.jwk["d"]).encode(), b"dpop-nonces", sha256).digest()

    def task_secrets(self) -> tuple[bytes, ...]:
        """Return the secrets of all keys, with which the gateway has bound delegations to tasks."""
        return tuple(task_secret(key.jwk) for key in self.keys())

    def problem(self, now: float) -> str:
        """Return why no token can be signed; empty if one can be."""
        if self.signing_key(now) is not None:
            return ""
        return self._problem or f"{self._path} holds no key"

    def keys(self) -> tuple[RingKey, ...]:
        """Return the keys of the file, which is read again after each change. A damaged file keeps the known keys."""
        try:
            status = self._path.stat()
        except OSError as error:
            self._fail(f"{self._path} cannot be read: {error.strerror}")
            return self._keys
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            self._seen = seen
            self._read()
        return self._keys

    def _read(self) -> None:
        try:
            entries = json.loads(self._path.read_bytes())["keys"]
            self._keys = tuple(_key(entry) for entry in entries)
            self._problem = ""
        except OSError as error:
            self._fail(f"{self._path} cannot be read: {error.strerror}")
        except (ValueError, KeyError, TypeError, RecursionError):
            # The message must not repeat the content, because the file holds private keys.
            self._fail(f"{self._path} is not a set of private keys")

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            _logger.error("the signing keys cannot be read", extra={"why": problem})
        self._problem = problem


def _key(entry: dict[str, Any]) -> RingKey:
    if entry["kty"] != "EC" or entry["crv"] != "P-256" or not isinstance(entry["d"], str) or not entry["kid"]:
        raise ValueError("not a private key on P-256")
    published = entry.get("iat", 0)
    return RingKey(dict(entry), float(entry.get("notBefore", published + _LEAD_SECONDS)))
