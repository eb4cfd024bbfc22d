"""Encryption of stored receiver credentials: AES-GCM with a mounted key, bound to one registration.

A process that can only read the memory volume cannot read the credentials. A process that can write to the volume
cannot move credentials to another registration. The newest key encrypts. Older keys still decrypt while they are
mounted. A prefix of the ciphertext identifies the key.
"""

import base64
import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from typing import Final

from fleetwright_agent.config.file_watcher import FileWatcher

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_MARK_BYTES: Final = 4
BEARER: Final = "Bearer"


@dataclass(frozen=True, slots=True)
class PushCredentials:
    """The credentials that the agent sends to a receiver."""

    token: str = field(default="", repr=False)
    scheme: str = ""
    secret: str = field(default="", repr=False)
    """The credentials of the scheme."""

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers. If only a token or only a bearer secret is given, both headers contain it."""
        scheme, secret = (self.scheme or BEARER, self.secret) if self.secret else (BEARER, self.token)
        token = self.token or (self.secret if scheme.lower() == BEARER.lower() else "")
        return {
            **({"Authorization": f"{scheme} {secret}"} if secret else {}),
            **({"X-A2A-Notification-Token": token} if token else {}),
        }


class DecryptionFailed(Exception):  # noqa: N818 - says what the sealed text is
    """No mounted key decrypts the credentials, they belong to another registration, or no key is mounted."""


def parse_keys(raw: bytes) -> tuple[bytes, ...]:
    """Parse the keys of a file: one per line, the newest first, each 32 bytes in URL-safe base64.

    Raises:
        ValueError: The file is invalid. The error text never repeats the content of the file.
    """
    try:
        # Padding is optional, because it follows from the length.
        keys = tuple(base64.urlsafe_b64decode(line + b"=" * (-len(line) % 4)) for line in raw.split())
    except ValueError:
        raise ValueError("its lines must be URL-safe base64") from None
    if not keys or any(len(key) != _KEY_BYTES for key in keys):
        raise ValueError(f"it must contain keys of {_KEY_BYTES} bytes")
    return keys


class CredentialCipher:
    def __init__(self, keys: FileWatcher[tuple[bytes, ...]]) -> None:
        self._keys = keys

    @property
    def problem(self) -> str | None:
        return self._keys.read()[1]

    @property
    def mark(self) -> bytes:
        """The prefix of every ciphertext of the newest key; empty if there is no key."""
        keys = self._keys.read()[0]
        return _mark(keys[0]) if keys else b""

    def seal(self, credentials: PushCredentials, *, place: str) -> bytes:
        """Encrypt credentials. Raises: DecryptionFailed: there is no key."""
        if credentials == PushCredentials():
            return b""
        keys = self._keys.read()[0]
        if not keys:
            raise DecryptionFailed
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(asdict(credentials)).encode()
        return _mark(keys[0]) + nonce + AESGCM(keys[0]).encrypt(nonce, text, place.encode())

    def open(self, sealed: bytes, *, place: str) -> PushCredentials:
        """Decrypt credentials. Raises: DecryptionFailed."""
        if not sealed:
            return PushCredentials()
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        mark, nonce, text = sealed[:_MARK_BYTES], sealed[_MARK_BYTES:_TEXT], sealed[_TEXT:]
        key = next((key for key in self._keys.read()[0] or () if _mark(key) == mark), None)
        if key is None:
            raise DecryptionFailed
        try:
            return PushCredentials(**json.loads(AESGCM(key).decrypt(nonce, text, place.encode())))
        except InvalidTag:
            raise DecryptionFailed from None


_TEXT: Final = _MARK_BYTES + _NONCE_BYTES


def _mark(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_MARK_BYTES]
