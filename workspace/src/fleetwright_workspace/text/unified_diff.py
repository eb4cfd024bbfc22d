"""Unified diffs with two lines of context, cut after 50 changed lines. Pure.

The caller knows which lines changed, so the cost depends on the change and not on the size of the file.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fleetwright_workspace.text.document import Replacement, split_lines

CONTEXT = 2
MOST_CHANGED = 50
_LONGEST_LINE = 1000
_MOST_COMPARED = 1000
"""Longer changes are shown as one removal and one addition, because comparing takes quadratic time."""


class FileDiff(NamedTuple):
    text: str
    truncated: bool


class _Change(NamedTuple):
    start: int
    end: int
    lines: Sequence[str]
    """The new lines."""


def replacement_diff(path: str, text: str, replacements: Sequence[Replacement]) -> FileDiff:
    """Return the diff of these replacements, which are in order and do not overlap."""
    if not replacements:
        return FileDiff("", truncated=False)
    # Only the lines around the replacements are split, because splitting a large file takes longer than editing it.
    start, end = _line_start(text, replacements[0].start), _line_end(text, replacements[-1].end)
    for _ in range(CONTEXT):
        start = _line_start(text, max(start - 1, 0))
        end = _line_end(text, end)
    moved = [Replacement(one.start - start, one.end - start, one.text) for one in replacements]
    window = text[start:end]
    return _render(path, split_lines(window), _segments(window, moved), first=text.count("\n", 0, start))


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    """Return the offset after the newline that ends the line."""
    return text.find("\n", offset) + 1 or len(text)


def whole_diff(path: str, before: str | None, after: str) -> FileDiff:
    """Return the diff of two contents; `before` is None for a new file."""
    old = [] if before is None else split_lines(before)
    return _render(path, old, [_Change(0, len(old), split_lines(after))], created=before is None)


def _segments(text: str, replacements: Sequence[Replacement]) -> Iterable[_Change]:
    """Yield the changed lines. Replacements that share a line are one change."""
    index = 0
    line = position = 0
    while index < len(replacements):
        first = text.rfind("\n", 0, replacements[index].start) + 1
        line += text.count("\n", position, first)
        pieces = [text[first : replacements[index].start]]
        while True:
            pieces.append(replacements[index].text)
            end = replacements[index].end
            # The line of the end belongs to the change, unless the replacement ends after a newline that it keeps.
            newline = text.find("\n", end)
            stop = len(text) if newline < 0 else newline + 1
            index += 1
            if index == len(replacements) or replacements[index].start >= stop:
                break
            pieces.append(text[end : replacements[index].start])
        pieces.append(text[end:stop])
        old_lines = text.count("\n", first, stop) + (0 if text.endswith("\n", first, stop) else int(stop > first))
        yield _Change(line, line + old_lines, split_lines("".join(pieces)))
        line += text.count("\n", first, stop)
        position = stop


def _render(
    path: str, old: Sequence[str], segments: Iterable[_Change], *, first: int = 0, created: bool = False
) -> FileDiff:
    """Args: `first` is the number of lines before `old` that are omitted."""
    output = ["--- /dev/null" if created else f"--- a/{path}", f"+++ b/{path}"]
    changed = 0
    truncated = False
    hunk: list[_Change] = []
    shift = 0
    for change in _changes(old, segments):
        if changed >= MOST_CHANGED:
            truncated = True
            break
        if hunk and change.start - hunk[-1].end > 2 * CONTEXT:
            shift = _flush(output, old, hunk, first, shift)
            hunk = []
        size = change.end - change.start + len(change.lines)
        if changed + size > MOST_CHANGED:
            truncated = True
            change = _cut(change, MOST_CHANGED - changed)
        changed += size
        hunk.append(change)
    if hunk:
        _flush(output, old, hunk, first, shift)
    if len(output) == 2:
        return FileDiff("", truncated=False)
    lines = [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…" for line in output]
    return FileDiff("\n".join(lines) + "\n", truncated or any(len(line) > _LONGEST_LINE for line in output))


def _cut(change: _Change, room: int) -> _Change:
    """Return the start of a change: at least half of the room shows the new lines, if there are as many."""
    removed = min(change.end - change.start, max(room // 2, room - len(change.lines)))
    return _Change(change.start, change.start + removed, change.lines[: room - removed])


def _changes(old: Sequence[str], segments: Iterable[_Change]) -> Iterable[_Change]:
    """Yield the smallest changes in ascending order."""
    for start, end, lines in segments:
        low = 0
        most = min(end - start, len(lines))
        while low < most and old[start + low] == lines[low]:
            low += 1
        high = 0
        while high < most - low and old[end - 1 - high] == lines[len(lines) - 1 - high]:
            high += 1
        first, last, new = start + low, end - high, lines[low : len(lines) - high]
        if last - first + len(new) > _MOST_COMPARED:
            yield _Change(first, last, new)
            continue
        matcher = difflib.SequenceMatcher(None, old[first:last], new, autojunk=False)
        for tag, one, two, three, four in matcher.get_opcodes():
            if tag != "equal":
                yield _Change(first + one, first + two, new[three:four])


def _flush(output: list[str], old: Sequence[str], hunk: Sequence[_Change], offset: int, shift: int) -> int:
    """Append one hunk. Return by how many lines the new file is longer so far."""
    first = max(hunk[0].start - CONTEXT, 0)
    last = min(hunk[-1].end + CONTEXT, len(old))
    body: list[str] = []
    position = first
    for change in hunk:
        body += [f" {line}" for line in old[position : change.start]]
        body += [f"-{line}" for line in old[change.start : change.end]]
        body += [f"+{line}" for line in change.lines]
        position = change.end
    body += [f" {line}" for line in old[position:last]]
    added = sum(len(change.lines) - (change.end - change.start) for change in hunk)
    old_count, new_count = last - first, last - first + added
    output.append(f"@@ -{_range(offset + first, old_count)} +{_range(offset + first + shift, new_count)} @@")
    for line in body:
        if line.endswith("\n"):
            output.append(line[:-1])
        else:
            output += [line, "\\ No newline at end of file"]
    return shift + added


def _range(start: int, count: int) -> str:
    """Return the range of a hunk header. An empty range names the line before it."""
    number = start + 1 if count else start
    return str(number) if count == 1 else f"{number},{count}"
