"""Tokenizes text for full-text search. Pure."""

import re
from typing import Final

MOST: Final = 16
"""The largest number of words of a question that a search uses."""
_WORD: Final = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Return the distinct words of a text, in order."""
    return list(dict.fromkeys(_WORD.findall(text.casefold())))


def quoted(found: list[str]) -> list[str]:
    """Quote words, so that FTS5 does not read them as operators."""
    return [f'"{word}"' for word in found]
