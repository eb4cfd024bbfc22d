"""Merges new lines with those of a file: lines that the caller did not change stay as in the file. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

_MOST_STEPS = 20_000_000


class LineMerge:
    """The difference between the old and the new lines of a caller, which applies at every place of an edit."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        self._kept: list[tuple[int, int, int]] | None = _shared(old, new)

    @property
    def is_known(self) -> bool:
        """False if the difference takes too long to find."""
        return self._kept is not None

    def apply(self, found: Sequence[str], new: Sequence[str]) -> list[str]:
        """Return the new lines, with the shared ones from the file.

        Args: `found` are the lines of the file, and `new` the new lines with the indentation of the file.
        """
        merged: list[str] = []
        position = 0
        for start, new_start, length in self._kept or ():
            merged += new[position:new_start]
            merged += found[start : start + length]
            position = new_start + length
        return merged + list(new[position:])


def _shared(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Return the shared runs as start in `old`, start in `new` and length; None if finding them takes too long."""
    most = min(len(old), len(new))
    low = high = 0
    while low < most and old[low] == new[low]:
        low += 1
    while high < most - low and old[len(old) - 1 - high] == new[len(new) - 1 - high]:
        high += 1
    middle, new_middle = old[low : len(old) - high], new[low : len(new) - high]
    if _steps(middle, new_middle) > _MOST_STEPS:
        return None
    matcher = difflib.SequenceMatcher(None, middle, new_middle, autojunk=False)
    inner = [(low + block.a, low + block.b, block.size) for block in matcher.get_matching_blocks()]
    runs = [(0, 0, low), *inner, (len(old) - high, len(new) - high, high)]
    return [run for run in runs if run[2]]


def _steps(old: Sequence[str], new: Sequence[str]) -> int:
    """Return a bound of the steps of `SequenceMatcher`, which looks at all pairs of equal lines for each run."""
    counts = Counter(new)
    pairs = sum(counts[line] for line in old)
    return (pairs + len(old) + len(new)) * min(len(old), len(new))
