"""Reads a range of lines of a file, in bounded memory."""

from __future__ import annotations

import codecs
import os
from typing import NamedTuple

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.digest import ContentDigest
from fleetwright_workspace.files.root import Location, WorkspaceRoot

MOST_LINES = 10_000
LONGEST_LINE = 2000
MOST_CHARACTERS = 1_000_000
READ_LIMIT = 64 * 1024 * 1024
_CHUNK = 1 << 18


class FileExcerpt(NamedTuple):
    path: str
    text: str
    lines: int
    total_lines: int
    truncated_lines: int
    size: int
    digest: str
    mtime_ns: int


def read_excerpt(root: WorkspaceRoot, location: Location, *, offset: int, limit: int) -> FileExcerpt:
    """Return lines from `offset` on, with `\n` as line ending. Long lines are cut.

    Raises:
        CallError: The file does not exist, is too large, or is not UTF-8 text.
    """
    with root.file(location) as (descriptor, status):
        if status.st_size > READ_LIMIT:
            message = f"{location.path} is larger than {READ_LIMIT} bytes; search it, or read a part with a command"
            raise CallError("too_large", message)
        collector = _LineCollector(offset, limit)
        decoder = codecs.getincrementaldecoder("utf-8")()
        summary = ContentDigest()
        size = 0
        first = True
        while size <= READ_LIMIT:
            data = os.read(descriptor, _CHUNK)
            summary.add(data)
            size += len(data)
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                raise _not_text(location) from None
            if "\0" in text:
                raise _not_text(location)
            collector.add(text[1:] if first and text.startswith("\ufeff") else text)
            first = first and not text
            if not data:
                break
        collector.finish()
    return FileExcerpt(
        path=location.path,
        text="".join(collector.kept),
        lines=len(collector.kept),
        total_lines=collector.number,
        truncated_lines=collector.truncated,
        size=size,
        digest=summary.text(),
        mtime_ns=status.st_mtime_ns,
    )


class _LineCollector:
    """Counts lines and keeps those of the range."""

    def __init__(self, offset: int, limit: int) -> None:
        self._first = offset
        self._end = offset + limit
        self._room = MOST_CHARACTERS
        self._rest = ""
        self._open = False
        """True if the current line has begun, even if none of it is kept."""
        self.number = 0
        self.kept: list[str] = []
        self.truncated = 0

    def add(self, text: str) -> None:
        pieces = text.split("\n")
        if len(pieces) == 1:
            self._continue(text)
            return
        self._continue(pieces[0])
        self._end_line("\n")
        between = pieces[1:-1]
        before = max(min(self._first - self.number, len(between)), 0)
        self.number += before
        inside = max(min(self._end - self.number, len(between) - before), 0)
        for piece in between[before : before + inside]:
            self._rest = piece
            self._end_line("\n")
        self.number += len(between) - before - inside
        self._continue(pieces[-1])

    def finish(self) -> None:
        if self._open:
            self._end_line("")

    def _continue(self, text: str) -> None:
        if not text:
            return
        self._open = True
        # A carriage return at the end may belong to the line ending, so two characters more are kept.
        if self._first <= self.number < self._end and len(self._rest) < LONGEST_LINE + 2:
            self._rest += text[: LONGEST_LINE + 2]

    def _end_line(self, ending: str) -> None:
        line = self._rest[:-1] if ending and self._rest.endswith("\r") else self._rest
        wanted = self._first <= self.number < self._end
        self._rest, self._open = "", False
        self.number += 1
        if not wanted or self._room <= 0:
            return
        if len(line) > LONGEST_LINE:
            self.truncated += 1
            line = line[:LONGEST_LINE]
        self._room -= len(line) + 1
        self.kept.append(line + ending)


def _not_text(location: Location) -> CallError:
    return CallError("not_text", f"{location.path} is not UTF-8 text")
