"""The default memory limit of commands: a share of what the container or the machine has."""

from __future__ import annotations

import os

_CGROUP = "/sys/fs/cgroup/memory.max"
_SHARE_OF_CONTAINER = 0.9
_SHARE_OF_MACHINE = 0.5


def default_memory() -> int:
    """Return the number of bytes."""
    try:
        with open(_CGROUP) as file:
            text = file.read().strip()
    except OSError:
        text = "max"
    if text.isdigit():
        return int(int(text) * _SHARE_OF_CONTAINER)
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _SHARE_OF_MACHINE)
