"""The candidates of a refused edit: lines that help the caller to name the place that it means. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

MOST_CANDIDATES = 6
_TEXT_LIMIT = 200
_FARTHEST = 200
_COMMON = 200
"""A line that occurs more often says nothing about a place."""
_MOST_WANTED = 1000
"""Only the first lines of a long text are looked for."""


class Candidate(NamedTuple):
    line: int
    """The number of the first line of the place, from 1."""
    text: str
    """The text of the line `differs_at`, cut."""
    differs_at: int
    """The nearest line at which this place differs from the others, or from what was wanted."""


def distinguishing_lines(file_lines: Sequence[str], starts: Sequence[int], length: int) -> list[Candidate]:
    """Return for each place the nearest line before or after it that no other place has there.

    Args: `starts` are line indices from 0, and `length` is the number of lines of each place.
    """
    shown = list(starts[:MOST_CANDIDATES])
    return [_distinguish(file_lines, start, [other for other in shown if other != start], length) for start in shown]


def _distinguish(file_lines: Sequence[str], start: int, others: Sequence[int], length: int) -> Candidate:
    for distance in range(_FARTHEST):
        for offset in (-1 - distance, length + distance):
            line = _line(file_lines, start + offset)
            if line is not None and line.strip() and all(_line(file_lines, o + offset) != line for o in others):
                return _candidate(start, start + offset, line)
    return _candidate(start, start, file_lines[start])


def _line(file_lines: Sequence[str], index: int) -> str | None:
    return file_lines[index] if 0 <= index < len(file_lines) else None


def closest_places(file_lines: Sequence[str], wanted: Sequence[str]) -> list[Candidate]:
    """Return the places that share most lines with the wanted ones, each with the first line that differs."""
    want = [line.strip() for line in wanted[:_MOST_WANTED]]
    places: dict[str, list[int]] = {line: [] for line in want if line}
    for index, line in enumerate(file_lines):
        known = places.get(line.strip())
        if known is not None and len(known) <= _COMMON:
            known.append(index)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(want):
        found = places.get(line, [])
        if len(found) <= _COMMON:
            votes.update(index - offset for index in found if index >= offset)
    if not votes:
        return _similar_lines(file_lines, next((line for line in want if line), ""))
    best = sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:MOST_CANDIDATES]
    return [_divergence(file_lines, start, wanted) for start, _ in best]


def _divergence(file_lines: Sequence[str], start: int, wanted: Sequence[str]) -> Candidate:
    for offset, line in enumerate(wanted):
        found = _line(file_lines, start + offset)
        if found is None:
            return _candidate(start, len(file_lines) - 1, file_lines[-1])
        if found != line:
            return _candidate(start, start + offset, found)
    return _candidate(start, start, file_lines[start])


def _similar_lines(file_lines: Sequence[str], wanted: str) -> list[Candidate]:
    """Return the lines that share most words with the wanted line, if they share half of them."""
    words = set(wanted.split())
    if not words:
        return []
    scored = [(len(words & set(line.split())), -index) for index, line in enumerate(file_lines[:20_000])]
    best = sorted((item for item in scored if item[0] * 2 >= len(words)), reverse=True)[:MOST_CANDIDATES]
    return [_candidate(-index, -index, file_lines[-index]) for _, index in best]


def _candidate(start: int, differs_at: int, text: str) -> Candidate:
    return Candidate(start + 1, text[:_TEXT_LIMIT], differs_at + 1)
