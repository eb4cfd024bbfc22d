"""What an earlier conversation came to, as typed entries that code finds and no model rewrites. Pure.

A summary of a summary loses a little every time; an entry stands until newer ones need its room. Entries come from
the messages that make way, one pass each: the caller's own words, identifiers, files, decisions, errors, and what
was done.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

ENTRY: Final = 240
"""Characters of one entry at most."""
_WORD: Final = re.compile(r"\w+")


class Kind(StrEnum):
    """In the order in which they are shown."""

    DECISION = "decisions"
    IDENTIFIER = "identifiers"
    SAID = "said"
    NOTED = "noted"
    FOUND = "found"
    FILE = "files"
    ERROR = "errors"
    DONE = "done"


@dataclass(frozen=True)
class Entry:
    """What is found out about it is kept: of thousands, a compaction asks each."""

    kind: Kind
    text: str
    key: str = ""
    """What a newer entry replaces; the text itself where there is none."""
    read: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """Its words, where whoever found it has them."""

    @cached_property
    def identity(self) -> tuple[Kind, str]:
        return self.kind, (self.key or self.text).casefold()

    @cached_property
    def words(self) -> tuple[str, ...]:
        return words(self.text) if self.read is None else self.read


def merged(earlier: Sequence[Entry], newer: Sequence[Entry]) -> list[Entry]:
    """Both, oldest first; what is said again, or anew of the same thing, stands once, where it was said last."""
    entries: dict[tuple[Kind, str], Entry] = {}
    for entry in [*earlier, *newer]:
        entries.pop(entry.identity, None)
        entries[entry.identity] = entry
    return list(entries.values())


_SHARES: Final = {
    Kind.DECISION: 0.15,
    Kind.IDENTIFIER: 0.35,
    Kind.SAID: 0.2,
    Kind.NOTED: 0.1,
    Kind.FOUND: 0.05,
    Kind.ERROR: 0.05,
    Kind.DONE: 0.05,
    Kind.FILE: 0.05,
}
"""Of the room: what people said comes before what a tool can be asked again. What a kind does not use, others do."""
_MORE: Final = {Kind.ERROR: 0.15, Kind.DONE: 0.15}
"""Of what is left then: nobody says again what failed or was done, and to do it twice is worse than small talk."""


def words(text: str) -> tuple[str, ...]:
    return tuple(map(sys.intern, _WORD.findall(text.casefold())))


class _Logarithms(dict[int, float]):
    """Of how often words are used: there are few such numbers, and many words."""

    def __missing__(self, times: int) -> float:
        self[times] = logarithm = math.log(times + 1)
        return logarithm


def _weights(entries: Sequence[Entry], used: Counter[str]) -> list[float]:
    """The mean rarity of each entry's words, from 0 to 1: what is said all the time says little."""
    most, times, logarithm = math.log(used.total() + 2), used.__getitem__, _Logarithms().__getitem__
    said = [entry.words for entry in entries]
    return [1 - sum(map(logarithm, map(times, each))) / most / len(each) if each else 0.0 for each in said]


@dataclass(frozen=True, slots=True)
class Weighed:
    """Entries, oldest first, and what bounding them asks of each: most of its work, and known before a summary is."""

    entries: list[Entry]
    weights: list[float]
    ranked: list[int]
    """Places of the entries, the weightiest first, and of those that weigh the same the newest."""
    texts: frozenset[str]
    """What they say, without regard to case."""


def weighed(entries: Sequence[Entry], used: Counter[str]) -> Weighed:
    """Args: `used` says how often each word is said."""
    return joined(Weighed([], [], [], frozenset()), entries, used)


def joined(known: Weighed, newer: Sequence[Entry], used: Counter[str]) -> Weighed:
    """With entries that are not among them."""
    entries, weights = [*known.entries, *newer], [*known.weights, *_weights(newer, used)]
    places = range(len(entries) - 1, len(known.entries) - 1, -1)
    by_weight = weights.__getitem__
    # Two parts that are in their order each are put into one in one pass.
    ranked = sorted([*sorted(places, key=by_weight, reverse=True), *known.ranked], key=by_weight, reverse=True)
    return Weighed(entries, weights, ranked, known.texts | {entry.text.casefold() for entry in newer})


def bounded(known: Weighed, limit: int) -> list[Entry]:
    """The entries that fit into so many characters, the weightiest of each kind, in their order."""
    sizes = [len(entry.text) + _PER_LINE for entry in known.entries]
    if sum(sizes) <= limit:
        return known.entries
    kept: set[int] = set()
    left = limit
    of_kind: dict[Kind, list[int]] = {kind: [] for kind in _SHARES}
    for i in known.ranked:
        of_kind[known.entries[i].kind].append(i)
    for share in (_SHARES, _MORE, dict.fromkeys(_SHARES, 1.0)):
        for kind, part in share.items():
            taken = _filled([i for i in of_kind[kind] if i not in kept], sizes, min(left, int(part * limit)))
            kept |= taken
            left -= sum(sizes[i] for i in taken)
    return [known.entries[i] for i in sorted(kept)]


def _filled(ranked: Sequence[int], sizes: Sequence[int], room: int) -> set[int]:
    """The first of them that fit."""
    taken: set[int] = set()
    for index in ranked:
        room -= sizes[index]
        if room < 0:
            break
        taken.add(index)
    return taken


_HEADINGS: Final = {
    Kind.DECISION: "Decisions",
    Kind.IDENTIFIER: "Names, numbers and identifiers, to the letter",
    Kind.SAID: "The user said",
    Kind.NOTED: "Noted",
    Kind.FOUND: "Found by tools",
    Kind.FILE: "Files",
    Kind.ERROR: "Errors",
    Kind.DONE: "Done, not to be done again",
}


def line(entry: Entry) -> str:
    return f"- {entry.text}\n"


_PER_LINE: Final = len(line(Entry(Kind.SAID, "")))


def rendered(entries: Sequence[Entry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
