"""Limits the memory in which a repository is unpacked, so that a large object is an error of the command.

A pack of a megabyte can contain an object of a gigabyte. The kernel would kill the container without a message.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fleetwright_agent.config.mounted_files import ConfigurationError

_CGROUP: Final = Path("/sys/fs/cgroup/memory.max")
_SHARE: Final = 0.85
"""The rest is for what the limit does not count, such as the code of libraries."""
_MEBIBYTE: Final = 1024 * 1024


@contextmanager
def limit_memory(cgroup: Path = _CGROUP) -> Iterator[None]:
    """Limit the data of this process (RLIMIT_DATA) to a share of the memory of its container.

    Args:
        cgroup: The file with the limit of the container in bytes, or `max`.

    Raises:
        ConfigurationError: The repository needs more memory. A later attempt may transfer less of it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [limit for limit in (_read_memory_share(cgroup), soft) if limit != resource.RLIM_INFINITY]
    chosen = min(limits, default=resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (chosen, hard))
    try:
        yield
    except MemoryError:
        size = "the available memory" if chosen == resource.RLIM_INFINITY else f"{chosen // _MEBIBYTE} MiB of memory"
        raise ConfigurationError(
            f"the repository needs more than {size} to unpack; "
            "remove its large files, also from its history, or use a smaller repository"
        ) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _read_memory_share(cgroup: Path) -> int:
    try:
        text = cgroup.read_text().strip()
    except OSError:  # The kernel has cgroups of version 1, or none.
        return resource.RLIM_INFINITY
    return int(int(text) * _SHARE) if text.isdigit() else resource.RLIM_INFINITY
