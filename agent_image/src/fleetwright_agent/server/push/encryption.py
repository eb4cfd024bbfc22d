"""Credentials of registrations at rest: sealed with a mounted key, and bound to the place they were given for.

Whoever can read the memory volume learns nothing from them, and whoever can write it cannot send them elsewhere.
A new key seals from then on; whatever a former one sealed still opens while that key is mounted, and says by a mark
which one that was.
"""

import base64
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from typing import Final

from fleetwright_agent.config.file_watcher import Watched

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MARK_BYTES: Final = 4
BEARER: Final = "Bearer"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a receiver knows us by."""

    token: str = field(default="", repr=False)
    scheme: str = ""
    secret: str = field(default="", repr=False)
    """Of that scheme."""

    def headers(self) -> dict[str, str]:
        """Each in its own header; where only one was given, it stands in both."""
        scheme, secret = (self.scheme or BEARER, self.secret) if self.secret else (BEARER, self.token)
        token = self.token or (self.secret if scheme.lower() == BEARER.lower() else "")
        return {
            **({"Authorization": f"{scheme} {secret}"} if secret else {}),
            **({"X-A2A-Notification-Token": token} if token else {}),
        }


class Unopenable(Exception):  # noqa: N818 - says what the sealed text is
    """None of the mounted keys opens it, or it was sealed for another place."""


def parse_keys(raw: bytes) -> tuple[bytes, ...]:
    """One to a line, the newest first, each 32 bytes in URL-safe base64.

    Raises:
        ValueError: Never repeats what the file holds.
    """
    try:
        # Padding says nothing that the length does not.
        keys = tuple(base64.urlsafe_b64decode(line + b"=" * (-len(line) % 4)) for line in raw.split())
    except ValueError:
        raise ValueError("its lines must be URL-safe base64") from None
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise ValueError(f"it must hold keys of {_KEY_BYTES} bytes")
    return keys


class Seals:
    def __init__(self, keys: Watched[tuple[bytes, ...]]) -> None:
        self._keys = keys

    @property
    def problem(self) -> str | None:
        return self._keys.read()[1]

    @property
    def mark(self) -> bytes:
        """With which everything begins that the newest key sealed; empty where there is no key."""
        keys = self._keys.read()[0]
        return _mark(keys[0]) if keys else b""

    def seal(self, credentials: Credentials, *, place: str) -> bytes:
        """Raises: Unopenable: there is no key."""
        if credentials == Credentials():
            return b""
        keys = self._keys.read()[0]
        if not keys:
            raise Unopenable
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(asdict(credentials)).encode()
        return _mark(keys[0]) + nonce + AESGCM(keys[0]).encrypt(nonce, text, place.encode())

    def open(self, sealed: bytes, *, place: str) -> Credentials:
        """Raises: Unopenable."""
        if not sealed:
            return Credentials()
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        mark, nonce, text = sealed[:_MARK_BYTES], sealed[_MARK_BYTES:_TEXT], sealed[_TEXT:]
        key = next((key for key in self._keys.read()[0] or () if _mark(key) == mark), None)
        if key is None:
            raise Unopenable
        try:
            return Credentials(**json.loads(AESGCM(key).decrypt(nonce, text, place.encode())))
        except InvalidTag:
            raise Unopenable from None


_TEXT: Final = _MARK_BYTES + _NONCE_BYTES


def _mark(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_MARK_BYTES]
