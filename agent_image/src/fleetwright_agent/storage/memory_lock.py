"""The lock of the memory volume: only its holder opens the files of an agent's memory.

Two pods of one agent can run at the same time, because a pod that is deleted or evicted drains its tasks while its
successor starts. The successor waits for the lock. The kernel releases the lock when the holder ends, in whichever way.
A frozen holder keeps it. The lock is `flock`, which also works between nodes if the file system of the volume supports
it.
"""

import fcntl
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from fleetwright_agent.storage.errors import MemoryUnusable

FILE: Final = "lock"
_MOST_BYTES: Final = 4096


class MemoryLock:
    def __init__(self, folder: Path, *, name: str) -> None:
        """Args: `name` is what others read as the name of the holder, such as the name of the pod."""
        self._path = folder / FILE
        self._name = name
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def take_lock(self) -> str:
        """Take the lock if it is free. Return the name of the process that holds it; empty if this one does.

        The method blocks for as long as a file operation on the volume takes.

        Raises:
            OSError: The file system of the volume has no locks that exclude other processes, or the volume is full.
        """
        if self._file is not None:
            return ""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = _open_file(self._path)
        try:
            if not _lock_file(file):
                holder = _read_name(file)
                os.close(file)
                return holder
            if not _is_at(self._path, file):
                raise OSError("its lock was replaced at the same moment")
            _check_exclusion(self._path)
            _write_name(file, self._name)
        except OSError:
            os.close(file)
            raise
        self._file = file
        return ""

    def check_held(self) -> None:
        """Raises: MemoryUnusable: This process does not hold the lock."""
        if self._file is None:
            raise MemoryUnusable("this process does not hold the lock of the memory volume")

    def release_lock(self) -> None:
        """Release the lock, after the last file has been closed. Releasing it again has no effect."""
        if self._file is not None:
            # The next holder must not be reported as this one until it has written its own name.
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def _is_at(path: Path, file: int) -> bool:
    """Return whether the path still names the open file. A person may have moved the file away before it was locked."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _lock_file(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_exclusion(path: Path) -> None:
    """Check that a second lock of the held file is refused. Some file systems accept every lock."""
    second = _open_file(path)
    try:
        if _lock_file(second):
            raise OSError("its file system does not exclude other processes with flock")
    finally:
        os.close(second)


def _read_name(file: int) -> str:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(os.pread(file, _MOST_BYTES, 0))["holder"])
    return "another process"


def _write_name(file: int, name: str) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"holder": name}).encode(), 0)
