"""Compares texts by words: lower case, without endings, without stop words."""

import re

# fmt: off
_SILENT = frozenset({
    "a", "about", "all", "also", "an", "and", "answer", "any", "are", "as", "at", "be", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "get", "give", "has", "have", "how", "i", "if", "in", "into", "is", "it",
    "its", "let", "like", "make", "may", "me", "my", "no", "not", "of", "on", "one", "or", "our", "out", "over",
    "please", "should", "so", "some", "tell", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "to", "two", "up", "us", "use", "used", "using", "was", "we", "were", "what", "when", "where", "which",
    "who", "will", "with", "work", "would", "you", "your",
})
# fmt: on

QUOTED = re.compile(r'"[^"]*"')
"""Quoted text, which a request passes on to another receiver."""


def words(text: str) -> set[str]:
    """Return the set of words of a text without stop words."""
    found = re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))
    return {_stem(word) for word in found if word not in _SILENT}


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def own(text: str) -> str:
    """Return the text without quoted parts, which may contain markers for another receiver."""
    return QUOTED.sub('""', text)


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
