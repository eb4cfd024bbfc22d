"""The descendants of a process on Linux, and how to end all of them.

A process that becomes the child subreaper gets every orphan below it as a child. So a command cannot escape by
starting a process that leaves its session.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.005


class TreeSize(NamedTuple):
    processes: int
    resident_bytes: int


def become_subreaper() -> bool:
    """Make orphans below this process its children. Return False if this Python has no `ctypes`."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def forbid_tracing() -> None:
    """Keep other processes of the same user from reading the memory of this one, where the platform allows that."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass


def descendants(pid: int) -> list[int]:
    """Return the processes below this one, parents before children."""
    children = _children()
    found: list[int] = []
    level = children(pid)
    while level:
        found += level
        level = [child for parent in level for child in children(parent)]
    return found


def children_of(pid: int) -> list[int]:
    return _children()(pid)


def tree_size(pid: int) -> TreeSize:
    found = descendants(pid)
    return TreeSize(len(found), sum(map(_resident, found)))


def proportional_set_size(pid: int) -> int:
    """Return the sum of the proportional set sizes (PSS) of all descendants.

    The kernel walks every page for this, so it takes much longer than `tree_size`.
    """
    return sum(map(_proportional, descendants(pid)))


def end_tree(pid: int, reap: Callable[[], None], *, grace: float) -> None:
    """End every process below this one: SIGTERM first, and SIGKILL after the grace period.

    Args: `reap` collects children that have ended.
    """
    deadline = time.monotonic() + grace
    left = descendants(pid)
    signal_all(left, signal.SIGTERM)
    signal_all(left, signal.SIGCONT)  # a stopped process gets SIGTERM only when it continues
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        reap()
        left = descendants(pid)
    if left:
        kill_tree(pid, reap)


def kill_tree(pid: int, reap: Callable[[], None]) -> None:
    """Stop every process first, so that none starts another one meanwhile, and then kill all of them."""
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        stopped: set[int] = set()
        while True:
            fresh = [found for found in descendants(pid) if found not in stopped]
            if not fresh:
                break
            signal_all(fresh, signal.SIGSTOP)
            stopped.update(fresh)
        signal_all(sorted(stopped), signal.SIGKILL)
        reap()
        if not descendants(pid):
            return
        time.sleep(_POLL_SECONDS)


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def _children() -> Callable[[int], list[int]]:
    own = os.getpid()
    return _listed_children if os.path.exists(f"/proc/{own}/task/{own}/children") else _all_children()


def _listed_children(pid: int) -> list[int]:
    """Return the children of a process from the lists that the kernel has for each of its threads."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it ended, so its children have another parent
    return found


def _all_children() -> Callable[[int], list[int]]:
    """Return the same from the parents of all processes, for kernels without these lists."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        parent = _parent(name) if name.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, [])


def _parent(pid: str) -> int | None:
    """Return the parent of a process; None if it ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[1])


def _proportional(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
    except (OSError, StopIteration, ValueError):
        return _resident(pid)


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
