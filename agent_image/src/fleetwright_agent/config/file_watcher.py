"""A file read again when it changes, also when its folder is swapped underneath, as the kubelet does."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_Identity = tuple[int, int, int, int]
_RECENT_SECONDS: Final = 0.05


class Watched(Generic[T]):
    """Looks at the file whenever it is read, so that a change counts at once.

    Args:
        path: The file; links are followed.
        parse: Raises ValueError with a sentence for people.
    """

    def __init__(
        self, path: Path, parse: Callable[[bytes], T], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._parse = parse
        self._monotonic = monotonic
        self._looked = -math.inf
        # One value, replaced whole: two threads read it.
        self._seen: tuple[_Identity | None, T | None, str | None] = (None, None, None)

    def recent(self) -> tuple[T | None, str | None]:
        """The same as it was a twentieth of a second ago at most, for what every request asks.

        A look is a system call, for which Python lets go of the interpreter: dear where another thread waits for it.
        """
        return self._seen[1:] if self._monotonic() - self._looked < _RECENT_SECONDS else self.read()

    def read(self) -> tuple[T | None, str | None]:
        """The value, or nothing and why."""
        self._looked = self._monotonic()
        try:
            stat = os.stat(self._path)  # noqa: PTH116 - on the path of every request, and pathlib doubles its price
            identity = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if identity != self._seen[0]:
                self._seen = (identity, *self._parsed(self._path.read_bytes()))
        except OSError as error:
            # It may pass and the file be the same, as where a process has no file handles left.
            self._seen = (None, None, f"{self._path.name} cannot be read: {error.strerror}")
        return self._seen[1:]

    @property
    def modified(self) -> int:
        """When what was read last was written, in whole seconds since the epoch."""
        identity = self._seen[0]
        return 0 if identity is None else identity[2] // 1_000_000_000

    def _parsed(self, content: bytes) -> tuple[T | None, str | None]:
        try:
            return self._parse(content), None
        except ValueError as error:
            return None, f"{self._path.name} is not valid: {error}"
