"""The kernel's limits on tasks, which are processes and threads together.

`command_process` counts processes four times a second, which names the reason but is too slow for a fork bomb. The
kernel refuses the next task at once. A command gets RLIMIT_NPROC if its user namespace counts tasks by itself. Else
only a cgroup can limit them, such as that of the kubelet's `podPidsLimit`.
"""

from __future__ import annotations

import errno
import os
import re
import resource
from collections.abc import Iterable

DEFAULT_PROCESSES = 2000
"""The most processes of one command."""
_UID_MAP = "/proc/self/uid_map"
_ALL_USERS = ["0", "0", "4294967295"]
_COUNTED_SINCE = (5, 14)
_CGROUPS = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
"""The limit of a container in the versions 2 and 1. A container sees its own cgroup there."""
_TASKS_PER_PROCESS = 2
_REFUSALS = (
    b"Resource temporarily unavailable",
    b"resource temporarily unavailable",
    b"Cannot fork",
    b"can't start new thread",
    b"unable to create native thread",
    b"EAGAIN",
)
"""The messages of C programs, Go, dash, Python, Java and Node say if the kernel refuses a process or thread."""


def to_task_limit(processes: int) -> int:
    """Return the number of tasks for this number of processes. Most processes of a build have few threads."""
    return _TASKS_PER_PROCESS * processes


def counts_own_tasks(uid_map: str, release: str) -> bool:
    """Return whether RLIMIT_NPROC counts the tasks of this user namespace only. Pure.

    In the initial user namespace it counts all tasks of the user on the machine. Other pods of a node may have the same
    user. Before Linux 5.14 this holds for every user namespace (`man 2 setrlimit`, `man 7 user_namespaces`).

    Args: `uid_map` is the content of /proc/self/uid_map, `release` the release of the kernel.
    """
    version = re.match(r"(\d+)\.(\d+)", release)
    if version is None or (int(version[1]), int(version[2])) < _COUNTED_SINCE:
        return False
    return uid_map.split() != _ALL_USERS


def has_own_task_count() -> bool:
    """Return whether RLIMIT_NPROC counts the tasks of this user namespace only."""
    text = _read_text(_UID_MAP)
    return text is not None and counts_own_tasks(text, os.uname().release)


def limit_tasks(most: int) -> None:
    """Limit the tasks of this user in this user namespace, if the namespace counts its own.

    The kernel does not hold root of the initial user namespace to it, also not in another namespace.
    """
    if not has_own_task_count():
        return
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (allowed, allowed))


def read_cgroup_limits() -> list[str]:
    """Return what the cgroup of this container says about its tasks. Without a limit that is `max`, or nothing."""
    return [text for text in map(_read_text, _CGROUPS) if text is not None]


def describe_missing_limit(own_count: bool, cgroup_limits: Iterable[str]) -> str:
    """Return a line for the log if no limit of the kernel can be seen, else an empty string. Pure."""
    if own_count or any(limit.strip().isdigit() for limit in cgroup_limits):
        return ""
    return (
        "the kernel limits the processes of commands neither by a user namespace nor by the cgroup of this container;"
        " a limit of the whole pod cannot be seen from here. Set podPidsLimit of the kubelet on this node, or run the"
        " pod with hostUsers: false"
    )


def is_fork_refused() -> bool:
    """Return whether the kernel refuses this process another task."""
    try:
        pid = os.fork()
    except OSError as error:
        return error.errno == errno.EAGAIN
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return False


def count_tasks(pids: list[int]) -> int:
    """Return the number of threads of these processes."""
    return sum(map(_count_threads, pids))


def count_visible_tasks() -> int:
    """Return the number of threads of all processes of this user that this process sees."""
    return count_tasks([int(name) for name in os.listdir("/proc") if name.isdigit() and _is_own(name)])


def reports_refusal(output: bytes) -> bool:
    """Return whether a program seems to report that the kernel has refused a process or thread."""
    return any(text in output for text in _REFUSALS)


def _is_own(pid: str) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False


def _count_threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _read_text(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None
