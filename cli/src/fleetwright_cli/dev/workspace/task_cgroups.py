"""Cgroups that limit the processes and threads of shells, for a local fleet of root.

The kernel holds other users to the limit that the executor sets in its user namespace. It exempts root, also there.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ENTER_CGROUP = 'echo $$ >"$0"; exec "$@"'
"""The program starts also if the kernel refuses the move. The log then has the reason."""
_PREFIX = "fleetwright-dev-"
_DELEGATED = ("trusted.delegate", "user.delegate")
"""The attributes of systemd on a cgroup whose children another program may manage."""


class TaskCgroups:
    """The cgroups of the shells of one run, each with a limit of tasks."""

    def __init__(self, run: int, most: int, *, mounts: Path = Path("/sys/fs/cgroup"), own: str | None = None) -> None:
        """Args:
        run: The id of the process whose cgroups these are.
        most: The number of processes and threads in each of them.
        own: The content of /proc/self/cgroup; by default it is read.
        """
        self._run = run
        self._most = most
        self._mounts = mounts
        self._own = _read_own_cgroups() if own is None else own
        self._folders: list[Path] = []

    def wrap_command(self, name: str, command: list[str]) -> list[str] | None:
        """Return the command that runs in a cgroup of its own; None if this process may make none."""
        folder = self._make_cgroup(f"{_PREFIX}{self._run}-{name}")
        return None if folder is None else ["/bin/sh", "-c", _ENTER_CGROUP, f"{folder}/cgroup.procs", *command]

    def remove(self) -> None:
        """Remove the cgroups. The caller has ended their processes."""
        for folder in self._folders:
            with suppress(OSError):
                folder.rmdir()

    def _make_cgroup(self, name: str) -> Path | None:
        for parent in _find_parents(self._own, self._mounts):
            _remove_stale_cgroups(parent)
            folder = parent / name
            try:
                folder.mkdir(exist_ok=True)
                self._folders.append(folder)
                (folder / "pids.max").write_text(str(self._most))
            except OSError:
                continue
            return folder
        return None


def _remove_stale_cgroups(parent: Path) -> None:
    """Remove the empty cgroups of runs that were killed."""
    for folder in parent.glob(f"{_PREFIX}*"):
        run = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", run).exists():
            with suppress(OSError):
                folder.rmdir()


def _read_own_cgroups() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""  # not Linux


def _find_parents(own: str, mounts: Path) -> Iterator[Path]:
    """Yield the cgroups in which this process may make one with `pids.max`.

    Version 1 allows children beside processes. In version 2 the parent must pass the controller on. A cgroup with
    processes cannot do this unless it is the root, so its parent is the next choice, if it is delegated.
    """
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        if "pids" in controllers.split(","):
            yield mounts / "pids" / path.lstrip("/")
        elif not controllers:
            folder = mounts / path.lstrip("/")
            if _has_pids_controller(folder):
                yield folder
            elif folder != mounts and _has_pids_controller(folder.parent) and _is_delegated(folder.parent):
                yield folder.parent


def _has_pids_controller(folder: Path) -> bool:
    try:
        return "pids" in (folder / "cgroup.subtree_control").read_text().split()
    except OSError:
        return False


def _is_delegated(folder: Path) -> bool:
    for name in _DELEGATED:
        with suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False
