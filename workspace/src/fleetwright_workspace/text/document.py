"""Text files that keep their byte order mark, line endings and final newline through an edit. Pure.

`TextDocument.text` has `\n` as its only line ending, so callers match and count lines in one way. Replacements are
given as offsets into this text and applied to the original, so bytes outside a replacement never change.
"""

from __future__ import annotations

import codecs
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

CRLF = "\r\n"


class Replacement(NamedTuple):
    start: int
    end: int
    text: str


class TextDocument(NamedTuple):
    text: str
    original: str
    """The decoded file without its byte order mark."""
    bom: bool
    crlf: array[int]
    """The offsets in `text` of the newlines that were CRLF, in ascending order."""

    def apply(self, replacements: Sequence[Replacement]) -> bytes:
        """Return the bytes of the file with these replacements, which are in order and do not overlap."""
        pieces: list[str] = []
        position = 0
        for start, end, text in replacements:
            pieces.append(self.original[position : self._offset(start)])
            pieces.append(text.replace("\n", CRLF) if "\n" in text and self._uses_crlf(start, end) else text)
            position = self._offset(end)
        pieces.append(self.original[position:])
        return encode("".join(pieces), bom=self.bom)

    @property
    def all_crlf(self) -> bool:
        """True if the file has line endings, and all of them are CRLF."""
        return bool(self.crlf) and len(self.crlf) == self.text.count("\n")

    def _offset(self, offset: int) -> int:
        return offset + bisect_left(self.crlf, offset)

    def _uses_crlf(self, start: int, end: int) -> bool:
        """Return whether new lines between these offsets end with CRLF.

        The first line ending inside decides, then the one after, then the one before.
        """
        if not self.crlf:
            return False
        newline = self.text.find("\n", start)
        if newline < 0:
            newline = self.text.rfind("\n", 0, end)
        index = bisect_left(self.crlf, newline)
        return index < len(self.crlf) and self.crlf[index] == newline


def decode(data: bytes) -> TextDocument | None:
    """Return the document; None if the data is not UTF-8 text."""
    bom = data.startswith(codecs.BOM_UTF8)
    if b"\0" in data:
        return None
    try:
        original = data[len(codecs.BOM_UTF8) :].decode() if bom else data.decode()
    except UnicodeDecodeError:
        return None
    crlf = array("Q")
    if CRLF not in original:
        return TextDocument(original, original, bom, crlf)
    pieces = original.split(CRLF)
    position = 0
    for piece in pieces[:-1]:
        position += len(piece)
        crlf.append(position)
        position += 1
    return TextDocument("\n".join(pieces), original, bom, crlf)


def encode(text: str, *, bom: bool) -> bytes:
    data = text.encode()
    return codecs.BOM_UTF8 + data if bom else data


def normalised(text: str) -> str:
    """Return the text of a caller with `\n` as its only line ending and without a byte order mark."""
    return text.replace(CRLF, "\n").lstrip("\ufeff") if text.startswith("\ufeff") else text.replace(CRLF, "\n")


def split_lines(text: str) -> list[str]:
    """Return the lines with their newlines. Unlike `str.splitlines`, only `\n` ends a line."""
    pieces = text.split("\n")
    last = pieces.pop()
    lines = [f"{piece}\n" for piece in pieces]
    if last:
        lines.append(last)
    return lines
