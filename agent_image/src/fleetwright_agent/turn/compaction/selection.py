"""Selects the entries of the ledger that fit into a summary.

Each kind of entry has a share of the room. Within a kind, entries with rare words come first. Whenever a statement is
selected, the latest statement on its subject is selected too. This module is pure.
"""

import math
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from fleetwright_agent.turn.compaction.ledger import EARLIER, GROUPED, LATEST, EntryKind, EntrySource, LedgerEntry, line
from fleetwright_agent.turn.compaction.text.subject_groups import SubjectGroups
from fleetwright_agent.turn.compaction.text.subjects import subject_of

_SHARES: Final = {
    EntryKind.DECISION: 0.15,
    EntryKind.IDENTIFIER: 0.35,
    EntryKind.SAID: 0.2,
    EntryKind.NOTED: 0.1,
    EntryKind.FOUND: 0.05,
    EntryKind.ERROR: 0.05,
    EntryKind.DONE: 0.05,
    EntryKind.FILE: 0.05,
    EntryKind.QUOTED: 0.05,
}
"""The initial share of the room for each kind. Lines of a summary use the share of noted statements."""
_MORE: Final = {EntryKind.ERROR: 0.15, EntryKind.DONE: 0.15}
"""A second share for errors and finished calls, because repeating finished work is a costly mistake."""
_LAST: Final = dict.fromkeys(_SHARES, 1.0)
_RAISED: Final = 0.2
"""The weight of a correction exceeds that of the corrected statement by this amount."""
_AUTHORITY: Final = {EntrySource.USER: 2, EntrySource.AGENT: 1, EntrySource.TOOL: 1, EntrySource.SUMMARY: 0}
_MARK: Final = len(EARLIER)
_PER_LINE: Final = len(line(LedgerEntry(EntryKind.SAID, "")))


class _Logarithms(dict[int, float]):
    """A cache of logarithms. There are many words, but few distinct use counts."""

    def __missing__(self, times: int) -> float:
        self[times] = logarithm = math.log(times + 1)
        return logarithm


def _weights(entries: Sequence[LedgerEntry], used: Counter[str]) -> list[float]:
    """Return the mean rarity of each entry's words, from 0 to 1."""
    most, times, logarithm = math.log(used.total() + 2), used.__getitem__, _Logarithms().__getitem__
    said = [entry.words for entry in entries]
    return [1 - sum(map(logarithm, map(times, each))) / most / len(each) if each else 0.0 for each in said]


@dataclass(frozen=True, slots=True)
class WeightedEntries:
    """Entries, oldest first, with the precomputed values that do not depend on the summary."""

    entries: list[LedgerEntry]
    weights: list[float]
    ranked: list[int]
    """The indexes of the entries by descending weight. Among entries of equal weight, the newest comes first."""
    texts: dict[str, int]
    """The index of each case-folded text. If several entries have the same text, the index of the last one."""
    groups: SubjectGroups
    """The statements among the entries, grouped by subject."""
    members: dict[int, list[int]]
    """The indexes of the statements of each group, oldest first."""
    of: dict[int, frozenset[int]]
    """For each index, the entry's groups that contain more than one statement."""
    latest: dict[int, int]
    """The index of the latest statement of each of those groups."""
    repeated: frozenset[int] = frozenset()
    """The indexes of entries that the summary repeats verbatim. They may use the room reserved for its lines."""

    def is_latest(self, place: int) -> bool:
        """Return True if an entry is the latest statement of each of its groups, or has no group."""
        return all(self.latest[group] == place for group in self.of.get(place, ()))


def weigh_entries(entries: Sequence[LedgerEntry], used: Counter[str]) -> WeightedEntries:
    """Weight and group the entries.

    Args:
        entries: The ledger, oldest first.
        used: The number of uses of each word.
    """
    groups = SubjectGroups()
    statements = [(place, groups.add(entry.subject)) for place, entry in enumerate(entries) if entry.kind in GROUPED]
    members: dict[int, list[int]] = {}
    for place, statement in statements:
        members.setdefault(groups.group(statement), []).append(place)
    shared = {group: places for group, places in members.items() if len({entries[i].folded for i in places}) > 1}
    weights = _weights(entries, used)
    for places in shared.values():
        _order(entries, weights, places)
    latest = {group: _latest(entries, places) for group, places in shared.items()}
    of = {place: frozenset((group,)) for group, places in shared.items() for place in places}
    texts = {entry.folded: place for place, entry in enumerate(entries)}
    return WeightedEntries(list(entries), weights, _ranked(weights), texts, groups, members, of, latest)


def _ranked(weights: Sequence[float]) -> list[int]:
    return sorted(range(len(weights) - 1, -1, -1), key=weights.__getitem__, reverse=True)


def _latest(entries: Sequence[LedgerEntry], places: Sequence[int]) -> int:
    """Return the index of the newest statement; statements of the user take precedence over others."""
    return max(places, key=lambda i: (_AUTHORITY[entries[i].source], i))


def _order(entries: Sequence[LedgerEntry], weights: list[float], places: Sequence[int]) -> None:
    """Reorder the weights of a group so that each statement weighs at least as much as the earlier ones."""
    newest_first = sorted(places, key=lambda i: (_AUTHORITY[entries[i].source], i), reverse=True)
    corrects = any(entries[i].subject.marked for i in places)
    weights[newest_first[0]] = max(weights[i] for i in places) + (_RAISED if corrects else 0.0)
    for newer, older in pairwise(newest_first):
        weights[older] = min(weights[older], weights[newer])


def join_summary(known: WeightedEntries, notes: Sequence[LedgerEntry], used: Counter[str]) -> WeightedEntries:
    """Return the entries with the lines of a summary added to the groups of the statements that they repeat.

    A line that equals the text of an entry adds no entry, but the entry may use the room of the line. No line counts as
    the latest statement on a subject, because the summary may be based on statements that were corrected later.
    """
    repeated = frozenset(known.texts[note.folded] for note in notes if note.folded in known.texts)
    new = [note for note in notes if note.folded not in known.texts]
    entries, weights = [*known.entries, *new], [*known.weights, *_weights(new, used)]
    of, latest = dict(known.of), dict(known.latest)
    for place, note in enumerate(new, len(known.entries)):
        groups = frozenset(known.groups.groups_of(note.subject))
        if not groups:
            continue
        of[place] = groups
        for group in groups - latest.keys():
            members = known.members[group]
            latest[group] = _latest(entries, members)
            of |= dict.fromkeys(members, frozenset((group,)))
    by_weight = weights.__getitem__
    added = sorted(range(len(entries) - 1, len(known.entries) - 1, -1), key=by_weight, reverse=True)
    # Both lists are sorted already, so sorting their concatenation takes one pass.
    ranked = sorted([*added, *known.ranked], key=by_weight, reverse=True)
    return WeightedEntries(entries, weights, ranked, known.texts, known.groups, known.members, of, latest, repeated)


def required(known: WeightedEntries, shown: Iterable[str]) -> dict[int, list[str]]:
    """Return the latest statement on the subject of each text that is shown next to the ledger.

    The keys are the indexes of the statements. The values are the texts.
    """
    places: dict[int, list[str]] = {}
    texts = list(shown)
    said = "\n".join(texts).casefold()
    for text in texts:
        for group in known.groups.groups_of(subject_of(text)):
            place = known.latest.get(group, known.members[group][-1])
            if known.entries[place].folded not in said:
                places.setdefault(place, []).append(text)
    return places


def fit_entries(known: WeightedEntries, limit: int, needed: Collection[int] = ()) -> list[LedgerEntry]:
    """Return the entries that fit into `limit` characters, in order. Each kind keeps the entries with most weight.

    Whenever a statement is included, the latest statement on its subject is included too.

    Args:
        known: All entries.
        limit: The maximum characters, without headings.
        needed: The indexes of entries that have priority.
    """
    sizes = [len(entry.text) + _PER_LINE for entry in known.entries]
    for place in {*known.of, *needed}:
        sizes[place] += _MARK
    if sum(sizes) <= limit:
        return _marked(known, range(len(sizes)), needed)
    filling = _Filling(known, sizes, limit)
    filling.take(needed)
    for shares in (_SHARES, _MORE, _LAST):
        filling.share(shares, limit)
    return _marked(known, filling.with_latest(), needed)


class _Filling:
    """The remaining room of a summary while entries are added."""

    def __init__(self, known: WeightedEntries, sizes: Sequence[int], limit: int) -> None:
        self._known = known
        self._sizes = sizes
        self._left = limit
        self._kept: set[int] = set()
        self._shown: set[str] = set()
        self._of_kind: dict[EntryKind, list[int]] = {kind: [] for kind in _SHARES}
        for place in known.ranked:
            self._of_kind[known.entries[place].kind].append(place)
            if place in known.repeated and known.entries[place].kind is not EntryKind.NOTED:
                self._of_kind[EntryKind.NOTED].append(place)

    def take(self, places: Iterable[int]) -> None:
        """Add each of these entries that fits."""
        for place in places:
            if self._sizes[place] <= self._left:
                self._put(place)

    def share(self, shares: dict[EntryKind, float], limit: int) -> None:
        """Add entries of each kind, up to the kind's share of `limit` and up to the remaining room."""
        for kind, part in shares.items():
            room = min(self._left, int(part * limit))
            for place in self._of_kind[kind]:
                if place in self._kept or self._known.entries[place].folded in self._shown:
                    continue
                room -= self._sizes[place]
                if room < 0:
                    break
                self._put(place)

    def _put(self, place: int) -> None:
        if place not in self._kept:
            self._kept.add(place)
            self._shown.add(self._known.entries[place].folded)
            self._left -= self._sizes[place]

    def with_latest(self) -> set[int]:
        """Add the latest statement of each group, if necessary in place of an earlier one. Return the kept indexes."""
        known, sizes = self._known, self._sizes
        for place in [i for i in known.ranked if i in self._kept and i in known.of]:
            for latest in {known.latest[group] for group in known.of[place]} - self._kept:
                if sizes[latest] > self._left and place in self._kept:
                    self._kept.discard(place)
                    self._left += sizes[place]
                if sizes[latest] <= self._left:
                    self._put(latest)
        return {i for i in self._kept if all(known.latest[group] in self._kept for group in known.of.get(i, ()))}


def _marked(known: WeightedEntries, places: Iterable[int], needed: Container[int]) -> list[LedgerEntry]:
    """Return the entries at those indexes, in order and without duplicate texts.

    A statement is marked if another statement on the same subject is shown, in the ledger or next to it.
    """
    chosen: dict[str, int] = {}
    for place in sorted(places, key=lambda i: (known.is_latest(i), i)):
        chosen[known.entries[place].folded] = place
    shown = Counter(group for place in chosen.values() for group in known.of.get(place, ()))
    entries: list[LedgerEntry] = []
    for place in sorted(chosen.values()):
        several = place in needed or any(shown[group] > 1 for group in known.of.get(place, ()))
        mark = (LATEST if known.is_latest(place) else EARLIER) if several else ""
        entries.append(known.entries[place].marked(mark))
    return entries
