"""Finds the places that an edit means, from the strictest strategy to the most lenient one. Pure.

The first strategy that finds any place decides. A place is used only if the number of places is the expected one, so
an ambiguous edit is refused. The time is linear in the size of the file, and an edit that needs more is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from fleetwright_workspace.text.document import Replacement
from fleetwright_workspace.text.edit_candidates import Candidate, closest_places, distinguishing_lines
from fleetwright_workspace.text.indentation import changes, reindented
from fleetwright_workspace.text.line_merge import LineMerge
from fleetwright_workspace.text.occurrences import MOST_PLACES, line_occurrences, text_occurrences

EXACT = "exact"
LINE_TRIMMED = "line-trimmed"
INDENT_FLEXIBLE = "indent-flexible"
WHITESPACE_NORMALISED = "whitespace-normalised"
_MOST_COMPARED = 250_000
"""Lines whose indentation is compared, besides those of the file. Only places that overlap need more."""


class EditPlan(NamedTuple):
    strategy: str
    replacements: list[Replacement]


class EditError(Exception):
    """The edit has no place or several. `candidates` help the caller to name one."""

    def __init__(self, code: str, message: str, candidates: list[Candidate]) -> None:
        super().__init__(message)
        self.code = code
        self.candidates = candidates


def plan_edit(text: str, old: str, new: str, count: int) -> EditPlan:
    """Return what replaces `old` by `new` at exactly `count` places.

    Raises:
        EditError: The number of places is another one.
    """
    starts = text_occurrences(text, old)
    if starts:
        overlapping = any(second - first < len(old) for first, second in zip(starts, starts[1:]))
        if len(starts) != count or overlapping:
            lines = _line_numbers(text, starts)
            raise _not_unique(text.split("\n"), lines, len(_lines(old)[0]), count, overlapping=overlapping)
        return EditPlan(EXACT, [Replacement(start, start + len(old), new) for start in starts])
    block = _Block(old, new)
    if block.is_blank:
        raise EditError("no_match", "old does not occur in the file; it has only white space", [])
    file_lines = text.split("\n")
    for strategy, key in _STRATEGIES:
        found = _fitting(block, file_lines, key)
        if not found:
            continue
        overlapping = any(second - first < len(block.old_lines) for first, second in zip(found, found[1:]))
        if len(found) != count or overlapping:
            raise _not_unique(file_lines, found, len(block.old_lines), count, overlapping=overlapping)
        replacements = block.replacements(file_lines, found)
        if replacements is not None:
            return EditPlan(strategy, replacements)
        message = "old occurs with other white space, and the new lines cannot be derived; copy old exactly"
        raise EditError("no_match", message, closest_places(file_lines, block.old_lines))
    message = "old does not occur in the file; read the file again and copy the lines exactly"
    raise EditError("no_match", message, closest_places(file_lines, block.old_lines))


def _fitting(block: _Block, file_lines: Sequence[str], key: Callable[[str], str]) -> list[int]:
    """Return the places that a strategy finds.

    Raises:
        EditError: So many places overlap that comparing their indentation takes too long.
    """
    places = line_occurrences([key(line) for line in file_lines], [key(line) for line in block.old_lines])
    if len(places) * len(block.old_lines) > len(file_lines) + _MOST_COMPARED:
        message = "old does not occur exactly, and too many places resemble it; copy old exactly, with fewer lines"
        raise EditError("no_match", message, distinguishing_lines(file_lines, places, len(block.old_lines)))
    return [index for index in places if block.fits(file_lines, index)]


def _right_trimmed(line: str) -> str:
    return line.rstrip()


def _trimmed(line: str) -> str:
    return line.strip()


def _collapsed(line: str) -> str:
    return " ".join(line.split())


# Python's definition of white space includes the no-break space, which models write as a plain space.
_STRATEGIES: tuple[tuple[str, Callable[[str], str]], ...] = (
    (LINE_TRIMMED, _right_trimmed),
    (INDENT_FLEXIBLE, _trimmed),
    (WHITESPACE_NORMALISED, _collapsed),
)


class _Block:
    """Whole lines to find and the lines that replace them."""

    def __init__(self, old: str, new: str) -> None:
        self.old_lines, self._terminated = _lines(old)
        self._new_lines, self._new_terminated = _lines(new)
        self._deletes = not new
        self.is_blank = not old.strip()

    def fits(self, file_lines: Sequence[str], index: int) -> bool:
        """Return whether the indentation of these lines follows from that of `old` in one way for all lines."""
        return bool(changes(self.old_lines, file_lines[index : index + len(self.old_lines)]))

    def replacements(self, file_lines: Sequence[str], places: Sequence[int]) -> list[Replacement] | None:
        """Return the replacements of the lines at these places; None if the new lines are not known."""
        offsets = [0, *accumulate(len(line) + 1 for line in file_lines)]
        if self._deletes and self._terminated:
            return [self._deletion(offsets, index) for index in places]
        merge = LineMerge(self.old_lines, self._new_lines)
        ending = "\n" if self._new_terminated and not self._terminated else ""
        replaced: list[Replacement] = []
        for index in places:
            end = index + len(self.old_lines)
            found = file_lines[index:end]
            indented = reindented(self._new_lines, changes(self.old_lines, found))
            if indented is None or not merge.is_known:
                return None
            text = "\n".join(merge.apply(found, indented)) + ending
            replaced.append(Replacement(offsets[index], offsets[end] - 1, text))
        return replaced

    def _deletion(self, offsets: Sequence[int], index: int) -> Replacement:
        """Return the removal of whole lines with their newlines. The last line has its newline before it."""
        start, end = offsets[index], offsets[index + len(self.old_lines)]
        if end < offsets[-1]:
            return Replacement(start, end, "")
        return Replacement(max(start - 1, 0), end - 1, "")


def _lines(text: str) -> tuple[list[str], bool]:
    """Return the lines without newlines, and whether the last one ends with a newline."""
    lines = text.split("\n")
    terminated = len(lines) > 1 and not lines[-1]
    return (lines[:-1] if terminated else lines), terminated


def _line_numbers(text: str, starts: Sequence[int]) -> list[int]:
    numbers: list[int] = []
    line = position = 0
    for start in starts:
        line += text.count("\n", position, start)
        position = start
        numbers.append(line)
    return numbers


def _not_unique(
    file_lines: Sequence[str], lines: Sequence[int], length: int, count: int, *, overlapping: bool
) -> EditError:
    number = f"{len(lines)} places" if len(lines) <= MOST_PLACES else f"more than {MOST_PLACES} places"
    if overlapping and len(lines) == count:
        message = f"old occurs at {number} that overlap; add lines around the place that you mean"
    else:
        remedy = "add lines around the place that you mean, or set count" if len(lines) > count else "set count"
        message = f"old occurs at {'1 place' if len(lines) == 1 else number} and count is {count}; {remedy}"
    return EditError("not_unique", message, distinguishing_lines(file_lines, lines, length))
