"""Limits the memory in which a repository is unpacked, so that a large object is an error of the command.

A pack of a megabyte can contain an object of a gigabyte. The kernel would kill the container without a message.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fleetwright_agent.config.mounted_files import UnusableContent

_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")
_SHARE: Final = 0.85
"""The rest is for what the limit does not count, such as the code of libraries."""
_MEBIBYTE: Final = 1024 * 1024


@contextmanager
def limited_memory(cgroup: Path = _CGROUP) -> Iterator[None]:
    """Limit the data of this process (RLIMIT_DATA) to a share of the memory of its container.

    Args:
        cgroup: The file with the limit of the container in bytes, or `max`.

    Raises:
        UnusableContent: The repository needs more memory.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _container_share(cgroup)
    limits = [each for each in (limit, soft) if each != resource.RLIM_INFINITY]
    chosen = min(limits, default=resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (chosen, hard))
    try:
        yield
    except MemoryError:
        raise UnusableContent(
            f"the repository needs more than {chosen // _MEBIBYTE} MiB of memory to unpack; "
            "remove its large files also from its history, or use a smaller repository"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _container_share(cgroup: Path) -> int:
    try:
        text = cgroup.read_text().strip()
    except OSError:  # The kernel has cgroups of version 1, or none.
        return resource.RLIM_INFINITY
    return int(int(text) * _SHARE) if text.isdigit() else resource.RLIM_INFINITY
