"""Digests of contents and of tokens, without OpenSSL.

`hashlib` loads OpenSSL, which costs 3.5 MB of memory. Contents have BLAKE2b digests, because the built-in
implementation of SHA-256 takes four times as long.
"""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # it has no stubs
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]  # same
    except ImportError:
        from hashlib import sha256
from _blake2 import blake2b

_BYTES = 32


class ContentDigest:
    """The digest of a content that arrives in pieces."""

    def __init__(self) -> None:
        self._state = blake2b(digest_size=_BYTES)

    def add(self, data: bytes) -> None:
        self._state.update(data)

    def text(self) -> str:
        return self._state.hexdigest()


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=_BYTES).hexdigest()


def token_digest(token: str) -> str:
    return str(sha256(token.encode(errors="replace")).hexdigest())
