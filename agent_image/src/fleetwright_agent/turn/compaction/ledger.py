"""What an earlier conversation came to, as typed entries that code finds and no model rewrites. Pure.

A summary of a summary loses a little every time; an entry stands until newer ones need its room. Entries come from
the messages that make way, one pass each: the caller's own words, identifiers, files, decisions, errors, and what
was done.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from langchain_core.messages import AnyMessage

ENTRY: Final = 240
"""Characters of one entry at most."""
_MOST_READ: Final = 8000
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


@dataclass(frozen=True, slots=True)
class Entry:
    kind: Kind
    text: str
    key: str = ""
    """What a newer entry replaces; the text itself where there is none."""

    @property
    def identity(self) -> tuple[Kind, str]:
        return self.kind, (self.key or self.text).casefold()


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


def words(message: AnyMessage) -> list[str]:
    """As often as each is used, in a long text at its beginning."""
    return _words(message.text[:_MOST_READ])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


class _Rarity(dict[str, float]):
    """Of a word, from 0 to 1: what is said all the time says little. Found once for each."""

    def __init__(self, used: Counter[str]) -> None:
        super().__init__()
        self._used = used
        self._most = math.log(used.total() + 2)

    def __missing__(self, word: str) -> float:
        self[word] = rarity = 1 - math.log(self._used[word] + 1) / self._most
        return rarity


def _weight(entry: Entry, rarity: _Rarity) -> float:
    """The mean rarity of its words."""
    words = _words(entry.text)
    return sum([rarity[word] for word in words]) / max(1, len(words))


def bounded(entries: Sequence[Entry], limit: int, used: Counter[str]) -> list[Entry]:
    """The entries that fit into so many characters, the weightiest of each kind, in their order."""
    if sum(len(line(entry)) for entry in entries) <= limit:
        return list(entries)
    rarity = _Rarity(used)
    weight = [_weight(entry, rarity) for entry in entries]
    ranked = sorted(range(len(entries)), key=lambda i: (-weight[i], -i))
    kept: set[int] = set()
    left = limit
    for share in (_SHARES, dict.fromkeys(_SHARES, 1.0)):
        for kind, part in share.items():
            candidates = [i for i in ranked if entries[i].kind is kind and i not in kept]
            taken = _filled(candidates, entries, min(left, int(part * limit)))
            kept |= taken
            left -= sum(len(line(entries[i])) for i in taken)
    return [entry for i, entry in enumerate(entries) if i in kept]


def _filled(ranked: Sequence[int], entries: Sequence[Entry], room: int) -> set[int]:
    """The first of them that fit."""
    taken: set[int] = set()
    for index in ranked:
        room -= len(line(entries[index]))
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


def rendered(entries: Sequence[Entry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
