"""The words of a text as full-text search takes them. Pure."""

import re
from typing import Final

MOST: Final = 16
"""Of a question; what is longer is no question."""
_WORD: Final = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """Each once, in their order."""
    return list(dict.fromkeys(_WORD.findall(text.casefold())))


def quoted(found: list[str]) -> list[str]:
    """So that none of them means something to the search itself."""
    return [f'"{word}"' for word in found]
