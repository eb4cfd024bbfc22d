"""The used and the free space of the memory volume. This module does not free any space."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTS: Final = ("tasks", "conversations", "knowledge", "skills", "audit", "other")
"""`conversations` includes the archive, the cost sums and the summaries of earlier sessions."""
_RESERVE: Final = 32 * 1024 * 1024
"""Bytes that must stay free for running tasks."""
_RESERVED_PART: Final = 20
"""On a small volume, at most one twentieth of the capacity is reserved."""


@dataclass(frozen=True, slots=True)
class VolumeUsage:
    """The sizes in bytes."""

    parts: Mapping[str, int]
    free: int
    capacity: int

    @property
    def used(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The space of a file system in bytes: free for this process, and in total."""

    free: int
    capacity: int


def space_of(folder: Path) -> DiskSpace:
    found = os.statvfs(folder)
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class MemoryVolume:
    """Measures files. Its methods block; call them off the event loop."""

    def __init__(self, folder: Path, *, most_bytes: int, space: Callable[[Path], DiskSpace] = space_of) -> None:
        self._folder = folder
        self._space = space
        self.most_bytes = most_bytes

    def sizes(self) -> VolumeUsage:
        """Raises: OSError."""
        parts = dict.fromkeys(PARTS, 0)
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder, name)
                try:
                    size = path.stat().st_size
                except OSError:
                    continue  # The file was deleted meanwhile.
                parts[_part(path.relative_to(self._folder))] += size
        space = self._space(self._folder)
        return VolumeUsage(parts, space.free, space.capacity)

    def over(self, sizes: VolumeUsage) -> int:
        """Return the number of bytes above the limit."""
        return max(0, sizes.used - self.most_bytes)

    def overgrown(self, sizes: VolumeUsage) -> str | None:
        """Return the largest part other than conversations, if these other parts alone exceed the limit.

        In that case, deleting conversations cannot free enough space.
        """
        others = {part: size for part, size in sizes.parts.items() if part != "conversations"}
        return max(others, key=lambda part: others[part]) if sum(others.values()) > self.most_bytes else None

    def is_full(self, sizes: VolumeUsage) -> bool:
        """Return whether new work must be rejected. Data of other programs in the file system counts too."""
        return self.over(sizes) > 0 or sizes.free < min(_RESERVE, sizes.capacity // _RESERVED_PART)


def _part(relative: Path) -> str:
    first = relative.parts[0].partition(".")[0]
    return first if first in PARTS else "other"
