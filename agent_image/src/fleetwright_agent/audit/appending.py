"""Appends to the files of the audit trail: one process at a time, and each line in a single write.

This module does not interpret the lines.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_LOCK: Final = ".lock"
_WAIT: Final = 0.01


class TrailLocked(OSError):  # noqa: N818 - describes the trail
    """Another process holds the lock of the trail."""


@contextmanager
def exclusive(folder: Path, patience: float) -> Iterator[None]:
    """Hold the exclusive lock of the trail; the kernel releases it if the process dies.

    Raises:
        TrailLocked: Another process held the lock for `patience` seconds.
    """
    with os.fdopen(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        _lock(file, patience)
        yield


def _lock(file: IO[str], patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TrailLocked(errno.EBUSY, "another process holds it") from None
            time.sleep(_WAIT)
        else:
            return


def inode_and_size(path: Path) -> tuple[int, int] | None:
    """Return the file's inode and size; `None` if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size


def append(path: Path, data: bytes) -> None:
    # The whole line is a single write. If the process dies, the file contains all or none of it. Only a failure of the
    # machine can leave a partial line.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(file, data) != len(data):
            raise OSError("the volume is full")
    finally:
        os.close(file)


def replace(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def terminate_partial_line(path: Path) -> None:
    """Terminate a partial line that a crashed process left."""
    last = last_line(path)
    if last and not last.endswith(b"\n"):
        append(path, b"\n")


def last_line(path: Path) -> bytes:
    """Return the last line, with its line break if it has one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            step = 64 * 1024
            while True:
                start = max(0, size - step)
                file.seek(start)
                tail = file.read()
                found = tail.rstrip(b"\n").rfind(b"\n")
                if found >= 0 or start == 0:
                    return tail[found + 1 :]
                step *= 4
    except FileNotFoundError:
        return b""
