"""Groups statements by subject, so that a correction is shown whenever the corrected statement is shown.

The subject of a statement is its content words without the values that differ. This module is pure, and it keeps no
text: `SubjectGroups` receives statements in chronological order and groups those on the same subject. The work grows
linearly: each statement is compared with a bounded number of others.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.turn.compaction.text.voice import plain

_TOKEN: Final = re.compile(r"[^\W_]+(?:[.,:/@_#'-]+[^\W_]+)*|[:=]")


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_STOP: Final = _words(
    "a an the this that these those it its he she they them his her their him i me my we us our you your who whom",
    "whose which what there here of in on at to for from by with about into over under between through and or but",
    "so then than as am do does did will would shall should can could may might must also too very just only",
    "please ok okay yes well still already yet again today tomorrow yesterday currently fine noted understood got",
    "thanks thank hello hi let's lets if when while because since until per each some any all both either messrs",
    "mr mrs ms dr eur usd gbp chf",
)
_BREAKS: Final = frozenset(("is", "are", "was", "were", "has", "have", "had", "be", "been", ":", "=", "holds", "costs"))
"""Words between a subject and its value."""
_PLACES: Final = frozenset(("in", "at", "of", "for", "from", "to", "on"))
"""Prepositions that introduce the words that distinguish a subject, if they precede the value."""
_NEGATIVE: Final = frozenset(("not", "no", "never", "none", "nobody", "nothing", "without", "cannot"))
_MARKED: Final = re.compile(
    r"\b(?:correction|corrections|corrected|correcting|erratum|actually|no longer|any ?more|any longer|instead"
    r"|scratch that"
    r"|strike that|make (?:that|it)|(?:i|we) meant|was wrong|were wrong|is wrong|that's wrong|my mistake"
    r"|mistaken|in fact"
    r"|rather than|update|updated|change of plans?|chang(?:e|ed|es) (?:to|my mind)"
    r"|(?:has|have|was|were|is|are|been) moved"
    r"|moved to|renam\w+|replac\w+|turns? out|turned out|raised to|lowered to|reduced to|increased to"
    r"|dropped to|switched"
    r"|postponed|brought forward|rescheduled|called off|cancell?ed|from now on|as of|from today|has left"
    r"|have left|outdated"
    r"|revis\w+|amend\w+|supersed\w+|forget (?:the|about|what)|ignore (?:the|what|my)|never ?mind"
    r"|not \S+ but|correct what"
    r"|correct myself|sorry|no wait|wait|you (?:may|can) now|does(?:n't| not)|do(?:n't| not)|new \w+ is"
    r"|it is \S+(?: \S+)?"
    r" who|it's \S+(?: \S+)? who|now)\b"
    r"|^\W*no,",
    re.IGNORECASE,
)
_LEANS: Final = re.compile(
    # The quantifiers are possessive: otherwise the engine tries every way to split a line of hyphens among the three.
    r"^\W*+(?:no|sorry|wait|oh|oops|actually|well|ah|hm+|and|but|so|or)?\W*+(?:no|wait|sorry|actually)?\W*+(?:it|that|this|they|those"
    r"|these|he|she|make (?:that|it)|scratch that|strike that|i meant|we meant|i mean|correction|rather"
    r"|not|better|say)\b"
    r"|^\W*(?:no|sorry|wait|oops)\b",
    re.IGNORECASE,
)
_FILLERS: Final = _words(
    "correction corrections corrected correcting correct erratum actually longer anymore more instead scratch",
    "strike make meant mean wrong mistake mistaken fact rather update updated change changed plan moved renamed",
    "replaced turn turns turned out raised lowered reduced increased dropped switched postponed rescheduled now",
    "forget ignore nevermind mind sorry wait said say told checked know look sure oh oops ah really think guess",
    "else other",
)
_FEW: Final = 2
_RECENT: Final = 8
_TOKENS: Final = 48
"""The maximum number of words examined in a statement."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of one statement."""

    tokens: tuple[str, ...]
    """The content words and values in order. A colon stands for each word between a subject and its value."""
    content: frozenset[str]
    words: frozenset[str]
    """The content words without numbers."""
    labels: frozenset[str]
    """Numbers that name the subject itself, as in "shelf 3 has …"."""
    anchors: frozenset[str]
    """Words that distinguish the subject, as in "the lift in Graz works"."""
    names: frozenset[str]
    """Capitalised words, except for the first word."""
    negative: bool
    marked: bool
    """True if the statement says that it corrects something."""
    leans: bool
    """True if the statement begins with a pronoun, or corrects the sentence directly before it."""

    @property
    def numbered(self) -> bool:
        return len(self.words) < len(self.content)


def subject_of(text: str) -> Subject:
    said = plain(text)
    tokens: list[str] = []
    labels: set[str] = set()
    anchors: set[str] = set()
    names: set[str] = set()
    negative, broken, before = False, False, ""
    for index, raw in enumerate(_TOKEN.findall(said)[:_TOKENS]):
        word = raw.casefold().removesuffix("'s")
        if word in _NEGATIVE or word.endswith("n't"):
            negative = True
        elif word in _BREAKS:
            # A number between a noun and a verb is part of the name.
            if not broken and _has_digit(before) and len(tokens) > 1:
                labels.add(before)
            broken = True
            tokens.append(":")
        elif word not in _STOP and word not in _FILLERS:
            stem = _stem(word)
            if before in _PLACES and not broken and not _has_digit(stem):
                anchors.add(stem)
            if index and raw[0].isupper():
                names.add(stem)
            tokens.append(stem)
            before = stem
            continue
        before = word if word in _PLACES else before if word in ("the", "a") else ""
    content = frozenset(tokens) - {":"}
    return Subject(
        tuple(tokens),
        content,
        frozenset(word for word in content if not _has_digit(word)),
        frozenset(labels),
        frozenset(anchors),
        frozenset(names),
        negative,
        corrects(text),
        _LEANS.match(said) is not None,
    )


def corrects(text: str) -> bool:
    """Return True if a statement says that it corrects something."""
    return _MARKED.search(plain(text)) is not None


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


_STEMS: dict[str, str] = {}
_MOST_STEMS: Final = 20_000


def _stem(word: str) -> str:
    known = _STEMS.get(word)
    if known is None:
        if len(_STEMS) >= _MOST_STEMS:
            _STEMS.clear()
        known = _STEMS[word] = _stemmed(word)
    return known


def _stemmed(word: str) -> str:
    if _has_digit(word):
        return word
    for ending in ("ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) > 2 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            return word[:-1] if ending in ("ing", "ed") and word[-1:] == word[-2:-1] else word
    return word


def antecedent(text: str, earlier: Sequence[str]) -> str | None:
    """Return the earlier statement to which a correction refers, if the correction names no subject itself.

    Args:
        text: A sentence of the user.
        earlier: The statements before it, oldest first; only the newest are examined.
    """
    if not _LEANS.match(plain(text)):
        return None
    subject = subject_of(text)
    if len(subject.words) > _FEW or not (subject.content or subject.negative):
        return None
    known = [(each, subject_of(each)) for each in reversed(earlier[-_RECENT:])]
    sharing = [each for each, other in known if subject.words & other.words]
    alike = [each for each, other in known if other.words and other.numbered is subject.numbered]
    # Words next to a number name a subject; words alone may be the value, such as a person's name.
    names_subject = subject.numbered and len(subject.words) > 1
    is_about_last = (subject.marked or subject.numbered) and not names_subject
    return next(iter([*sharing, *(alike if is_about_last else [])]), None)
