"""Removal of characters with which text could control the terminal or hide its meaning. Pure."""

import re
import unicodedata
from typing import Final

_UNSAFE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""C0 (without tab and line feed), DEL, C1, the separators of lines and paragraphs, and the controls and marks of
bidirectional text."""


def safe_text(text: str) -> str:
    """Return the text without control characters. Line feeds and tabs stay."""
    return _UNSAFE.sub("", text)


def one_line(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters."""
    line = " ".join(safe_text(text).split())
    return line if len(line) <= limit else line[: max(0, limit - 1)] + "…"


def cells(text: str) -> int:
    """Return how many columns of a terminal a line occupies."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
