"""Words of a text as the rules compare them: lower case, without endings, without those that say nothing."""

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
"""What a request passes on to somebody."""


def words(text: str) -> set[str]:
    """The set of telling words of a text."""
    found = re.findall(r"[a-z0-9]+", text.lower().replace("_", " "))
    return {_stem(word) for word in found if word not in _SILENT}


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def own(text: str) -> str:
    """What a request says itself: what it passes on has markers of its own."""
    return QUOTED.sub('""', text)


def sentences(text: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.!?])\s+|\n+", text) if part.strip()]
