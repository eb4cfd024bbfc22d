"""Groups statements that are about the same subject. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from fleetwright_agent.turn.compaction.text.subjects import Subject

_KEYS: Final = 5
_LENIENT: Final = 0.5
"""The minimum overlap of a correction and the corrected statement, as a fraction of the lighter statement's weight."""
_STRICT: Final = 0.4
"""The minimum overlap of other statements on one subject."""
_LONGER: Final = 0.2
_NEAR_BEST: Final = 0.9
_RARE: Final = 40
"""A word in more statements than this is not used to find related statements."""
_COMPARED: Final = 12
"""The maximum number of earlier statements compared for each word."""


class SubjectGroups:
    """Statements, oldest first, each with the group of its subject."""

    def __init__(self) -> None:
        self._subjects: list[Subject] = []
        self._parents: list[int] = []
        self._holders: dict[str, list[int]] = defaultdict(list)
        self._alike: dict[frozenset[str], list[int]] = defaultdict(list)
        """The statements with the same words, regardless of their numbers."""

    def add(self, subject: Subject) -> int:
        """Add a statement and return its index."""
        place = len(self._subjects)
        related = self._related(subject)
        self._subjects.append(subject)
        self._parents.append(place)
        for other in related:
            self._parents[self._root(other)] = place
        for word in subject.content:
            self._holders[word].append(place)
        self._alike[subject.words].append(place)
        return place

    def group(self, place: int) -> int:
        """Return a number that all statements on one subject share."""
        return self._root(place)

    def groups_of(self, subject: Subject) -> set[int]:
        """Return the groups that a statement outside this collection belongs to."""
        return {self._root(place) for place in self._related(subject)}

    def _root(self, place: int) -> int:
        parents = self._parents
        while parents[place] != place:
            parents[place] = parents[parents[place]]
            place = parents[place]
        return place

    def _related(self, subject: Subject) -> list[int]:
        """Return the earlier statements on the same subject: the most similar one, and those almost as similar."""
        if not subject.words:
            return []
        weight = self._weight(subject.words)
        scores = {place: self._score(place, subject, weight) for place in self._candidates(subject)}
        least = _NEAR_BEST * max(scores.values(), default=0.0)
        return [place for place, score in scores.items() if score and score >= least]

    def _candidates(self, subject: Subject) -> set[int]:
        """Return the newest statements that share all words, or one of the rarest words, with the subject."""
        holders = self._holders
        found = set(self._alike.get(subject.words, ())[-_COMPARED:])
        known = sorted((len(held), word) for word in subject.content if (held := holders.get(word)))
        for count, word in known[:_KEYS]:
            if count <= _RARE:
                found.update(holders[word][-_COMPARED:])
        return found

    def _weight(self, words: Iterable[str]) -> float:
        """Return the total information content of some words; rare words have more."""
        holders, most = self._holders, math.log(len(self._subjects) + 2) + 0.1
        return sum(most - math.log(len(holders[word]) + 1) if word in holders else most for word in words)

    def _score(self, place: int, later: Subject, weight: float) -> float:
        """Return the similarity of an earlier statement to a later one; zero if the subjects differ."""
        earlier = self._subjects[place]
        shared = earlier.words & later.words
        if not shared or (earlier.labels and later.labels and earlier.labels.isdisjoint(later.labels)):
            return 0.0
        common, other = self._weight(shared), self._weight(earlier.words)
        coverage = common / min(weight, other)
        elsewhere = _differ(earlier.anchors, later.anchors)
        apart = elsewhere and earlier.anchors.isdisjoint(later.words) and later.anchors.isdisjoint(earlier.words)
        if earlier.numbered and later.numbered and (apart or _differ(earlier.names, later.names)):
            # In both statements the number is the value, so the names or places distinguish their subjects.
            return 0.0
        if later.marked and coverage >= _LENIENT:
            return coverage
        if elsewhere:
            return 0.0
        if earlier.words == later.words and earlier.numbered and later.numbered:
            return coverage if _slots(later, earlier.content) <= 1 else 0.0
        rare = min(len(self._holders[word]) for word in shared) <= _RARE
        enough = rare and (len(shared) > 1 or (earlier.numbered and later.numbered))
        if not enough or coverage < _STRICT or common / max(weight, other) < _LONGER:
            return 0.0
        slots = min(_slots(earlier, later.content), _slots(later, earlier.content))
        return coverage if slots <= 1 else 0.0


def _differ(some: frozenset[str], others: frozenset[str]) -> bool:
    """Return True if both sets are non-empty and disjoint."""
    return bool(some) and bool(others) and some.isdisjoint(others)


def _slots(subject: Subject, shared: frozenset[str]) -> int:
    """Return the number of runs of adjacent words that the other statement lacks."""
    slots, inside = 0, False
    for each in subject.tokens:
        lacking = each != ":" and each not in shared
        slots += lacking and not inside
        inside = lacking
    return slots
