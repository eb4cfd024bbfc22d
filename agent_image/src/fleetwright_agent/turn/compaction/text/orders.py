"""Finds orders and permissions that contradict an earlier prohibition. Pure.

"Ok, ship to St. Gallen" does not say that it withdraws "Never ship to St. Gallen". Such an order does not end the rule,
but the prompt shows it next to the rule.
"""

import re
from functools import lru_cache
from typing import Final

from fleetwright_agent.turn.compaction.text.subjects import Subject, subject_of
from fleetwright_agent.turn.compaction.text.voice import own_words

_OK: Final = r"(?:ok|okay|fine|allowed|permitted|all right|alright|acceptable|possible|welcome|good)"
_ORDER: Final = re.compile(
    rf"^\W*(?:(?:{_OK}|yes|sure|right|well|then|so|and|but|actually|please|now|just|also|go ahead(?: and)?|feel free to"
    r"|you (?:can|may|should|could)|we (?:can|may|should|could)?"
    rf"|it(?:'s| is) (?:now |also )?{_OK} to)\b[\s,.!:;–-]*)*+(?!(?:can|could|would|will|do|does|did|is|are|was|were|if"
    r"|when|what|why|how|who|where|which|has|have|had|it|he|she|they|i|the|a|an|my|our|your)\b)[a-z]+(?<!ing)\b",
    re.IGNORECASE,
)
_PERMITS: Final = re.compile(rf"\b(?:is|are|it's) (?:now |also )?{_OK}\b", re.IGNORECASE)
_CONDITIONAL: Final = re.compile(
    r"\b(?:if|unless|until|when|whenever|before|after|without|except|only|than|between|during|while)\b", re.IGNORECASE
)
_LONGEST: Final = 240
_COVERED: Final = 0.75
"""The minimum fraction of an order's words that the contradicted rule contains."""
_OF_PERMISSIONS: Final = frozenset(
    ("allow", "permitt", "permit", "acceptabl", "possibl", "welcom", "good", "free", "feel")
)
_OF_ORDERS: Final = frozenset(("right", "sure", "go", "ahead", "alright", "feel", "free", "allow", "fine"))


def is_order(text: str) -> bool:
    """Return True if a line orders or permits something. A question and a negated statement never do."""
    said = own_words(text)
    if len(said) > _LONGEST or said.endswith("?") or _subject(text).negative:
        return False
    return _ORDER.match(said) is not None or _PERMITS.search(said) is not None


def contradicts(order: str, rule: str) -> bool:
    """Return True if an order or a permission is about all that a rule without a condition prohibits.

    Args:
        order: A line for which `is_order` is true.
        rule: A rule. A list of rules is contradicted if one item is.
    """
    header, *items = rule.splitlines()
    said = _subject(order)
    return any(_is_opposite(said, each) for each in ([f"{header} {item}" for item in items] or [header]))


def _is_opposite(order: Subject, rule: str) -> bool:
    prohibited = _subject(rule)
    if not prohibited.negative or not prohibited.words or _CONDITIONAL.search(own_words(rule)):
        return False
    told = [each for each in order.tokens if each not in _OF_ORDERS and each != ":"]
    forbidden = [each for each in prohibited.tokens if each != ":"]
    words = order.content - _OF_PERMISSIONS - _OF_ORDERS
    return (
        told[:1] == forbidden[:1]
        and prohibited.content <= order.content
        and len(prohibited.content) >= _COVERED * len(words)
    )


@lru_cache(maxsize=2048)
def _subject(text: str) -> Subject:
    return subject_of(text)
