"""Locks a folder of the cache for one process, and tells waiting processes what they wait for.

Locks are never broken.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster.progress import Progress


@contextmanager
def exclusive(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the lock during the block. The operating system releases the lock of a process that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"another process is making {folder.name}, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
