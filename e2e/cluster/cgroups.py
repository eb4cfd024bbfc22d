"""The cgroup in which a local node keeps its pods, in every hierarchy of the machine: version 1, 2 or both.

This module never changes another cgroup. It also reads the limit of the memory of this container.
"""

import os
import signal
import time
from pathlib import Path

from tests.support.machine import machine_factor


def hierarchies(mounts: str) -> list[Path]:
    """Return the mount points of all cgroup hierarchies, from the text of /proc/self/mounts."""
    fields = (line.split() for line in mounts.splitlines())
    return [Path(field[1]) for field in fields if field[2] in {"cgroup", "cgroup2"}]


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the bytes that the processes of this container may use; None without a limit.

    A container sees its own group at the root of the hierarchy. Version 1 writes no limit as a huge number.
    """
    for file in (root / "memory.max", root / "memory" / "memory.limit_in_bytes"):
        if file.exists():
            text = file.read_text().strip()
            return int(text) if text.isdigit() else None
    return None


def _roots(name: str) -> list[Path]:
    return [mount / name for mount in hierarchies(Path("/proc/self/mounts").read_text())]


def create(name: str) -> None:
    for root in _roots(name):
        root.mkdir(exist_ok=True)
        available = root.parent / "cgroup.controllers"
        if available.exists() and available.read_text().split():
            # In version 2, each level must delegate the controllers that the pods' groups may use.
            (root.parent / "cgroup.subtree_control").write_text(_all(available))
            (root / "cgroup.subtree_control").write_text(_all(root / "cgroup.controllers"))


def _all(controllers: Path) -> str:
    return " ".join(f"+{controller}" for controller in controllers.read_text().split())


def _members(name: str) -> set[int]:
    found: set[int] = set()
    for root in _roots(name):
        for procs in root.rglob("cgroup.procs"):
            try:
                found |= {int(line) for line in procs.read_text().split()}
            except OSError:
                continue  # the group disappeared meanwhile
    return found


def remove(name: str) -> None:
    """Kill every process in the groups, then delete the groups deepest first."""
    deadline = time.monotonic() + 20 * machine_factor()
    while (members := _members(name)) and time.monotonic() < deadline:
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    for root in _roots(name):
        groups = sorted((group for group in root.rglob("*") if group.is_dir()), key=lambda group: -len(group.parts))
        for group in (*groups, root):
            if group.exists():
                _rmdir(group, deadline)


def _rmdir(group: Path, deadline: float) -> None:
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
