"""A mounted file that is read again when it changes, even if the kubelet replaces the whole folder."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_Identity = tuple[int, int, int, int]
_RECENT_SECONDS: Final = 0.05


class FileWatcher(Generic[T]):
    """A parsed file; each `read` checks whether the file has changed.

    Args:
        path: The file; symbolic links are followed.
        parse: Parses the content; raises ValueError with a text for people.
    """

    def __init__(
        self, path: Path, parse: Callable[[bytes], T], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._parse = parse
        self._monotonic = monotonic
        self._looked = -math.inf
        # A single tuple that is replaced as a whole, because two threads read it.
        self._seen: tuple[_Identity | None, T | None, str | None] = (None, None, None)

    def recent(self) -> tuple[T | None, str | None]:
        """Return the value like `read`, but up to 0.05 seconds old, for use in every request.

        A check of the file is a system call, for which Python releases the interpreter lock. Getting the lock back is
        expensive if another thread waits for it.
        """
        return self._seen[1:] if self._monotonic() - self._looked < _RECENT_SECONDS else self.read()

    def read(self) -> tuple[T | None, str | None]:
        """Return the value and None, or None and the reason why there is no value."""
        self._looked = self._monotonic()
        try:
            stat = os.stat(self._path)  # noqa: PTH116 - runs in every request, and pathlib doubles its cost
            identity = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if identity != self._seen[0]:
                self._seen = (identity, *self._parsed(self._path.read_bytes()))
        except OSError as error:
            # The error may be temporary, for example if the process has no file handles left. The next read must parse
            # the file again even if the file is unchanged, so the identity is cleared.
            self._seen = (None, None, f"{self._path.name} cannot be read: {error.strerror}")
        return self._seen[1:]

    @property
    def modified(self) -> int:
        """The modification time of the file as last read, in whole seconds since the epoch."""
        identity = self._seen[0]
        return 0 if identity is None else identity[2] // 1_000_000_000

    def _parsed(self, content: bytes) -> tuple[T | None, str | None]:
        try:
            return self._parse(content), None
        except ValueError as error:
            return None, f"{self._path.name} is not valid: {error}"
