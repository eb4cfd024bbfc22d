"""Ranks texts for a query with BM25, in which rare words have a higher weight. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"[^\W_]+(?:[-.:/@][^\W_]+)*")
_PARTS: Final = re.compile(r"[-.:/@]")
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75


def words(text: str) -> list[str]:
    """Return the lower-case words; a compound such as an order number also yields its parts."""
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        found.append(word)
        found += [part for part in _PARTS.split(word) if part != word]
    return found


def fitting(texts: Sequence[Counter[str]], wanted: Sequence[str]) -> list[tuple[float, int]]:
    """Return the score and index of every text that contains a wanted word, in the order of the texts."""
    if not texts or not wanted:
        return []
    having = {word: sum(word in text for text in texts) for word in wanted}
    rare = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in having.items()}
    mean = sum(text.total() for text in texts) / len(texts)
    scored = ((_score(text, rare, mean), place) for place, text in enumerate(texts))
    return [(score, place) for score, place in scored if score > 0]


def _score(text: Counter[str], rare: dict[str, float], mean: float) -> float:
    length = _SATURATION * (1 - _LENGTH + _LENGTH * text.total() / mean) if mean else _SATURATION
    return sum(
        weight * text[word] * (_SATURATION + 1) / (text[word] + length) for word, weight in rare.items() if word in text
    )
