"""How much of the memory volume is used, by what, and whether there is room for more. Refuses: making room."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTS: Final = ("tasks", "conversations", "knowledge", "skills", "audit", "other")
"""`conversations` holds the archive too, the ledger of costs, and what is told of earlier sessions."""
_RESERVE: Final = 32 * 1024 * 1024
"""That stays free for what is under way."""
_RESERVED_PART: Final = 20
"""Of a small volume no more than this part of it is reserved."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """In bytes."""

    parts: Mapping[str, int]
    free: int
    capacity: int

    @property
    def used(self) -> int:
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True)
class Space:
    """Of a file system: what is free to us, and what there is."""

    free: int
    capacity: int


def space_of(folder: Path) -> Space:
    found = os.statvfs(folder)
    return Space(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class Volume:
    """Looks at files: call it off the event loop."""

    def __init__(self, folder: Path, *, most_bytes: int, space: Callable[[Path], Space] = space_of) -> None:
        self._folder = folder
        self._space = space
        self.most_bytes = most_bytes

    def sizes(self) -> Sizes:
        """Raises: OSError."""
        parts = dict.fromkeys(PARTS, 0)
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder, name)
                try:
                    size = path.stat().st_size
                except OSError:
                    continue  # It has gone meanwhile.
                parts[_part(path.relative_to(self._folder))] += size
        space = self._space(self._folder)
        return Sizes(parts, space.free, space.capacity)

    def over(self, sizes: Sizes) -> int:
        """Bytes that are more than may be."""
        return max(0, sizes.used - self.most_bytes)

    def overgrown(self, sizes: Sizes) -> str | None:
        """The largest of the parts that no conversation makes way for, where they have no room by themselves."""
        others = {part: size for part, size in sizes.parts.items() if part != "conversations"}
        return max(others, key=lambda part: others[part]) if sum(others.values()) > self.most_bytes else None

    def is_full(self, sizes: Sizes) -> bool:
        """Whether nothing new may begin: also where others have filled the disk, whom nothing of ours makes way for."""
        return self.over(sizes) > 0 or sizes.free < min(_RESERVE, sizes.capacity // _RESERVED_PART)


def _part(relative: Path) -> str:
    first = relative.parts[0].partition(".")[0]
    return first if first in PARTS else "other"
