"""Joins streamed text so that no character is split. Pure.

JSON encodes characters beyond 16 bits as surrogate pairs, and some providers split their chunks inside a pair. A lone
surrogate must not be stored or sent.
"""

from typing import Final

_HIGH: Final = ("\ud800", "\udbff")
_UTF16: Final = "utf-16-le"


class WholeCharacters:
    """Holds a high surrogate back until its low surrogate arrives, and replaces lone surrogates."""

    def __init__(self) -> None:
        self._half = ""

    def __call__(self, piece: str) -> str:
        text = self._half + piece
        last = text[-1:]
        self._half = last if _HIGH[0] <= last <= _HIGH[1] else ""
        return text.removesuffix(self._half).encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")


def is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
