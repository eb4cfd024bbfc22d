"""The digests of accepted bearer tokens, read again when their file changes.

The runner stores only digests, so a leaked file grants no access.
"""

from __future__ import annotations

import os
import threading
from _operator import _compare_digest as is_equal  # `hmac` exports it, and loads OpenSSL

from fleetwright_workspace.files.digest import token_digest

_LARGEST_FILE = 64 * 1024


class AcceptedTokens:
    """A file with the hexadecimal SHA-256 digest of one token on each line. Without the file, no token is accepted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._digests: tuple[bytes, ...] = ()

    def accepts(self, token: str) -> bool:
        """Return whether the token is accepted. Every known digest is compared, in constant time."""
        given = token_digest(token).encode()
        accepted = False
        for known in self._current():
            accepted |= is_equal(known, given)
        return accepted

    def _current(self) -> tuple[bytes, ...]:
        with self._lock:
            try:
                status = os.stat(self._path)
                seen = (status.st_mtime_ns, status.st_ino, status.st_size)
                if seen != self._seen:
                    with open(self._path, "rb") as file:
                        lines = file.read(_LARGEST_FILE).split(b"\n")
                    self._digests = tuple(line.strip().lower() for line in lines if line.strip())
                    self._seen = seen
            except OSError:
                self._digests, self._seen = (), None
            return self._digests
