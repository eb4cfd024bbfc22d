"""Runs scenarios of several pytest workers on one cluster: most concurrently, but disruptive ones exclusively."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WORKER = "PYTEST_XDIST_WORKER"


@contextmanager
def turn(folder: Path, *, alone: bool) -> Iterator[None]:
    """Hold the cluster while the block runs: shared with other workers, or exclusively.

    A scenario that waits for the exclusive lock keeps the queue locked, so that no later scenario overtakes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "queue").open("w") as queue, (folder / "cluster").open("w") as cluster:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(cluster, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        yield


@contextmanager
def first_of_all(base: Path, name: str) -> Iterator[bool]:
    """Yield True in the first worker of a run that comes here, and False in the others once that block has ended.

    A block that fails leaves no mark, so the next worker tries again. Without workers the answer is always True.

    Args:
        base: the temporary folder of this worker; its parent is shared by the workers of one run.
    """
    if _WORKER not in os.environ:
        yield True
        return
    done = base.parent / f"{name}.done"
    with (base.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists()
        done.touch()
