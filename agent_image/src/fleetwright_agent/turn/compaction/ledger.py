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
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Final

from fleetwright_agent.turn.compaction.subjects import Groups, Subject, subject_of

ENTRY: Final = 240
"""Characters of one entry at most."""
LATEST: Final = " [latest]"
EARLIER: Final = " [earlier]"
_MARK: Final = len(EARLIER)
_WORD: Final = re.compile(r"\w+")


class Source(StrEnum):
    """Who said what an entry says."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"
    SUMMARY = "summary"
    """The model that wrote a summary: it may repeat what was corrected since."""


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
    QUOTED = "quoted"
    """In a message of the user, and not the user's own words."""


@dataclass(frozen=True)
class Entry:
    """What is found out about it is kept: of thousands, a compaction asks each."""

    kind: Kind
    text: str
    key: str = ""
    """What a newer entry replaces; the text itself where there is none."""
    read: tuple[str, ...] | None = field(default=None, compare=False, repr=False)
    """Its words, where whoever found it has them."""
    source: Source = field(default=Source.AGENT, compare=False)

    mark: str = field(default="", compare=False)
    """Whether it is the latest statement on its subject, where there are several."""

    def marked(self, mark: str) -> "Entry":
        return self if mark == self.mark else replace(self, mark=mark)

    @cached_property
    def identity(self) -> tuple[Kind, str]:
        return self.kind, (self.key or self.text).casefold()

    @cached_property
    def subject(self) -> Subject:
        return subject_of(self.text)

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
    Kind.QUOTED: 0.05,
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
    texts: dict[str, int]
    """What they say, without regard to case, and where."""
    groups: Groups
    """The statements among them, by their subjects."""
    statements: dict[int, int]
    """Places in `groups`, by the places of their entries."""
    latest: dict[int, int]
    """The place of the latest statement of each group that has more than one."""

    def group(self, place: int) -> int | None:
        """Return the group of an entry, if it has other members."""
        statement = self.statements.get(place)
        if statement is None:
            return None
        group = self.groups.group(statement)
        return group if group in self.latest else None

    def repeats(self, place: int) -> bool:
        """Return whether an entry is a note of a summary that says what another entry says."""
        entry = self.entries[place]
        return entry.source is Source.SUMMARY and self.texts.get(entry.text.casefold(), place) != place

    def mark(self, place: int) -> str:
        """Return what is added to an entry whose subject has several statements."""
        group = self.group(place)
        if group is None:
            return ""
        return LATEST if self.latest[group] == place else EARLIER


_GROUPED: Final = frozenset((Kind.DECISION, Kind.IDENTIFIER, Kind.SAID, Kind.NOTED))
"""Kinds of what people and the model say. What a tool says anew replaces what it said before by its call."""
_RAISED: Final = 0.2
"""How much more a correction weighs than what it corrects."""


def weighed(entries: Sequence[Entry], used: Counter[str]) -> Weighed:
    """Args: `used` says how often each word is said."""
    groups = Groups()
    statements = {i: groups.add(entry.subject) for i, entry in enumerate(entries) if entry.kind in _GROUPED}
    members: dict[int, list[int]] = {}
    for place, statement in statements.items():
        members.setdefault(groups.group(statement), []).append(place)
    shared = {group: places for group, places in members.items() if len(places) > 1}
    weights = _weights(entries, used)
    for places in shared.values():
        _order(entries, weights, places)
    latest = {group: _latest(entries, places) for group, places in shared.items()}
    ranked = sorted(range(len(entries) - 1, -1, -1), key=weights.__getitem__, reverse=True)
    texts = {entry.text.casefold(): i for i, entry in enumerate(entries)}
    return Weighed(list(entries), weights, ranked, texts, groups, statements, latest)


def _latest(entries: Sequence[Entry], places: Sequence[int]) -> int:
    """Return the place of the newest statement; what the user said counts before what others said of it."""
    return max(places, key=lambda i: (_AUTHORITY[entries[i].source], i))


_AUTHORITY: Final = {Source.USER: 2, Source.AGENT: 1, Source.TOOL: 1, Source.SUMMARY: 0}


def _order(entries: Sequence[Entry], weights: list[float], places: Sequence[int]) -> None:
    """Let the latest statement of a group weigh most, and each earlier one no more than the next."""
    newest_first = sorted(places, key=lambda i: (_AUTHORITY[entries[i].source], i), reverse=True)
    corrects = any(entries[i].subject.marked for i in places)
    weights[newest_first[0]] = max(weights[i] for i in places) + (_RAISED if corrects else 0.0)
    for newer, older in pairwise(newest_first):
        weights[older] = min(weights[older], weights[newer])


def joined(known: Weighed, notes: Sequence[Entry], used: Counter[str]) -> Weighed:
    """Return the entries with the notes of a summary, each in the group of what it repeats.

    A note is never the latest word on a subject: the summary may have been written from what was corrected since.
    """
    entries, weights = [*known.entries, *notes], [*known.weights, *_weights(notes, used)]
    statements, latest = dict(known.statements), dict(known.latest)
    for place, note in enumerate(notes, len(known.entries)):
        for group in known.groups.groups_of(note.subject):
            members = [i for i, statement in known.statements.items() if known.groups.group(statement) == group]
            latest.setdefault(group, _latest(entries, members))
            statements[place] = known.statements[latest[group]]
    places = range(len(entries) - 1, len(known.entries) - 1, -1)
    by_weight = weights.__getitem__
    # Two parts that are in their order each are put into one in one pass.
    ranked = sorted([*sorted(places, key=by_weight, reverse=True), *known.ranked], key=by_weight, reverse=True)
    return Weighed(entries, weights, ranked, known.texts, known.groups, statements, latest)


def required(known: Weighed, shown: Sequence[str]) -> list[int]:
    """Return the latest statements on the subjects of texts that are shown beside the ledger."""
    places: dict[int, None] = {}
    said = "\n".join(shown).casefold()
    for text in shown:
        for group in known.groups.groups_of(subject_of(text)):
            place = known.latest.get(group)
            if place is None:
                place = next(i for i, each in known.statements.items() if known.groups.group(each) == group)
            if known.entries[place].text.casefold() not in said:
                places[place] = None
    return list(places)


def bounded(known: Weighed, limit: int, needed: Sequence[int] = ()) -> list[Entry]:
    """Return the entries that fit into so many characters, the weightiest of each kind, in their order.

    Wherever a statement is among them, the latest one on its subject is among them too.

    Args:
        known: All that there is.
        limit: Characters, headings aside.
        needed: Places of entries that come first.
    """
    sizes = [len(entry.text) + _PER_LINE for entry in known.entries]
    for place in known.statements:
        if known.group(place) is not None:
            sizes[place] += _MARK
    if sum(sizes) <= limit:
        return _distinct(known, set(range(len(sizes))))
    kept: set[int] = set()
    left = limit
    for place in needed:
        if place not in kept and sizes[place] <= left:
            kept.add(place)
            left -= sizes[place]
    of_kind: dict[Kind, list[int]] = {kind: [] for kind in _SHARES}
    for i in known.ranked:
        of_kind[known.entries[i].kind].append(i)
    shown = {known.entries[i].text.casefold() for i in kept}
    last = dict.fromkeys(_SHARES, 1.0)
    # A note that repeats an entry without room of its own has room where nothing else needs it.
    repeats = {i for i in of_kind[Kind.NOTED] if known.repeats(i)}
    for share in (_SHARES, _MORE, last):
        out = kept if share is last else kept | repeats
        for kind, part in share.items():
            waiting = [i for i in of_kind[kind] if i not in out and known.entries[i].text.casefold() not in shown]
            taken = _filled(waiting, sizes, min(left, int(part * limit)))
            kept |= taken
            shown |= {known.entries[i].text.casefold() for i in taken}
            left -= sum(sizes[i] for i in taken)
    return _distinct(known, _with_latest(known, kept, sizes, left))


def _with_latest(known: Weighed, kept: set[int], sizes: Sequence[int], left: int) -> set[int]:
    """Return the places with the latest statement of each group; an earlier one makes way where there is no room."""
    for place in [i for i in known.ranked if i in kept]:
        group = known.group(place)
        latest = None if group is None else known.latest[group]
        if latest is None or latest in kept:
            continue
        if sizes[latest] > left:
            kept.discard(place)
            left += sizes[place]
        if sizes[latest] <= left:
            kept.add(latest)
            left -= sizes[latest]
    return {i for i in kept if (group := known.group(i)) is None or known.latest[group] in kept}


def _distinct(known: Weighed, kept: set[int]) -> list[Entry]:
    """Return the entries at those places, marked, without a note that an entry repeats to the letter."""
    said = {known.entries[i].text.casefold() for i in kept if known.entries[i].source is not Source.SUMMARY}
    return [
        known.entries[i].marked(known.mark(i))
        for i in sorted(kept)
        if known.entries[i].source is not Source.SUMMARY or known.entries[i].text.casefold() not in said
    ]


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
    Kind.QUOTED: "Quoted in messages of the user, not said by the user",
}


def line(entry: Entry) -> str:
    return f"- {entry.text}{entry.mark}\n"


_PER_LINE: Final = len(line(Entry(Kind.SAID, "")))


def rendered(entries: Sequence[Entry]) -> str:
    sections: list[str] = []
    for kind, heading in _HEADINGS.items():
        lines = [line(entry) for entry in entries if entry.kind is kind]
        if lines:
            sections.append(f"{heading}:\n{''.join(lines)}")
    return "".join(sections).rstrip("\n")
