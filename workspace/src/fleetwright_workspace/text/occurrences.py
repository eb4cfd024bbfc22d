"""Finds every occurrence of a sequence in another one in linear time, also those that overlap. Pure.

The search for text begins with `str.find`, which is fast while occurrences are rare. If two occurrences overlap, each
call could compare the whole text again, so the algorithm of Knuth, Morris and Pratt takes over.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST_PLACES = 10_000


def text_occurrences(text: str, wanted: str) -> list[int]:
    """Return the offsets in ascending order, at most one more than `MOST_PLACES`."""
    starts: list[int] = []
    start = text.find(wanted)
    while start >= 0 and len(starts) <= MOST_PLACES:
        if starts and start - starts[-1] < len(wanted):
            first = starts[0]
            return [first + found for found in occurrences(text[first:], wanted)]
        starts.append(start)
        start = text.find(wanted, start + 1)
    return starts


def line_occurrences(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return the indices of the lines at which the wanted lines begin, at most one more than `MOST_PLACES`."""
    numbers = {line: number for number, line in enumerate(dict.fromkeys(wanted))}
    # Comparing numbers takes constant time. A line that is not wanted gets -1.
    return occurrences([numbers.get(line, -1) for line in lines], [numbers[line] for line in wanted])


def occurrences(items: Sequence[object], wanted: Sequence[object]) -> list[int]:
    """Return the indices in ascending order, at most one more than `MOST_PLACES`. `wanted` is not empty."""
    if len(wanted) > len(items):
        return []
    borders = _borders(wanted)
    found: list[int] = []
    matched = 0
    for index, item in enumerate(items):
        while matched and (matched == len(wanted) or wanted[matched] != item):
            matched = borders[matched - 1]
        if wanted[matched] == item:
            matched += 1
            if matched == len(wanted):
                found.append(index + 1 - matched)
                if len(found) > MOST_PLACES:
                    break
    return found


def _borders(wanted: Sequence[object]) -> list[int]:
    """Return for each prefix the length of its longest proper prefix that is also its suffix."""
    borders = [0] * len(wanted)
    length = 0
    for index in range(1, len(wanted)):
        while length and wanted[index] != wanted[length]:
            length = borders[length - 1]
        if wanted[index] == wanted[length]:
            length += 1
        borders[index] = length
    return borders
