"""How the files of the trail are written: by one process at a time, whole lines, each in one write.

Refuses: knowing what a line says.
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


class Held(OSError):  # noqa: N818 - states a fact about the trail
    """Another process writes it."""


@contextmanager
def alone(folder: Path, patience: float) -> Iterator[None]:
    """No other process writes the trail meanwhile; one that dies lets go of it.

    Raises:
        Held: Another one has had it for `patience` seconds.
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
                raise Held(errno.EBUSY, "another process holds it") from None
            time.sleep(_WAIT)
        else:
            return


def end_of(path: Path) -> tuple[int, int] | None:
    """Which file it is, and its size; nothing where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size


def append(path: Path, data: bytes) -> None:
    # One write of the whole line: a process that dies leaves all or nothing of it, unless the machine goes too.
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


def end_half(path: Path) -> None:
    """Ends the line that a process which died had begun."""
    last = last_line(path)
    if last and not last.endswith(b"\n"):
        append(path, b"\n")


def last_line(path: Path) -> bytes:
    """With its line break, where it has one."""
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
