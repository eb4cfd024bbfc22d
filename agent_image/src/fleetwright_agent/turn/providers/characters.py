"""Text that comes in pieces, with every character whole.

JSON writes a character beyond 16 bits as a pair of surrogates, and some providers cut their pieces between the two.
Nothing that is stored or sent may hold one alone. Pure.
"""

from typing import Final

_HIGH: Final = ("\ud800", "\udbff")
_UTF16: Final = "utf-16-le"


class Whole:
    """Keeps half of a character back until the other half comes; one that nothing completes is replaced."""

    def __init__(self) -> None:
        self._half = ""

    def __call__(self, piece: str) -> str:
        text = self._half + piece
        last = text[-1:]
        self._half = last if _HIGH[0] <= last <= _HIGH[1] else ""
        return text.removesuffix(self._half).encode(_UTF16, "surrogatepass").decode(_UTF16, "replace")


def is_whole(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
