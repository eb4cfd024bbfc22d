"""Joins streamed text so that no character is split. Pure.

JSON encodes characters beyond 16 bits as surrogate pairs, and some providers split their chunks inside a pair. A lone
surrogate must not be stored or sent.
"""

from collections.abc import Mapping
from typing import Any, Final

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
        return _replace_lone_surrogates(text.removesuffix(self._half))


def _replace_lone_surrogates(text: str) -> str:
    """Return the text with pairs of surrogates joined, and a replacement character for each lone one."""
    return text.encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")


def is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


_MOST_DEPTH: Final = 32


def mend_characters(value: Any, levels: int = _MOST_DEPTH) -> Any:
    """Return a JSON value whose texts have no split characters. What is nested too deeply becomes null."""
    if isinstance(value, str):
        return _replace_lone_surrogates(value)
    if levels <= 0:
        return None
    if isinstance(value, list):
        return [mend_characters(each, levels - 1) for each in value]
    if isinstance(value, Mapping):
        return {mend_characters(str(key)): mend_characters(each, levels - 1) for key, each in value.items()}
    return value
