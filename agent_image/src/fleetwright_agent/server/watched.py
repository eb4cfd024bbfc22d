"""A file read again when it changes, also when its folder is swapped underneath, as the kubelet does."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")
_Identity = tuple[int, int, int, int]


class Watched(Generic[T]):
    """Looks at the file on every access: a few microseconds, and a change counts from the next request on.

    Args:
        path: The file; links are followed.
        parse: Raises ValueError with a sentence for people.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        self._path = path
        self._parse = parse
        # One value, replaced whole: two threads read it.
        self._seen: tuple[_Identity | None, T | None, str | None] = (None, None, None)

    def read(self) -> tuple[T | None, str | None]:
        """The value, or nothing and why."""
        try:
            stat = os.stat(self._path)  # noqa: PTH116 - on the path of every request, and pathlib doubles its price
        except OSError as error:
            self._seen = (None, None, None)
            return None, f"{self._path.name} cannot be read: {error.strerror}"
        identity = (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
        seen, value, problem = self._seen
        if identity != seen:
            value, problem = self._load()
            self._seen = (identity, value, problem)
        return value, problem

    @property
    def modified(self) -> int:
        """When what was read last was written, in whole seconds since the epoch."""
        identity = self._seen[0]
        return 0 if identity is None else identity[2] // 1_000_000_000

    def _load(self) -> tuple[T | None, str | None]:
        try:
            return self._parse(self._path.read_bytes()), None
        except OSError as error:
            return None, f"{self._path.name} cannot be read: {error.strerror}"
        except ValueError as error:
            return None, f"{self._path.name} is not valid: {error}"
