"""Everything seen of the cluster, newest version only, found by identity or by what it relates to.

Which relations there are, the maker of the cache says; this file only keeps them in step. Refuses older
versions of an object than it has: a late event must not undo an answer that was newer. Nor does a list that was
read before an object went bring it back, be its name free or another's by then.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from fleetwright_operator.kube.cached_object import Entry, entry_of
from fleetwright_operator.kube.port import Listing, Object, Resource

Term = tuple[Hashable, ...]
Id = tuple[str, str, str]
_REMEMBERED = 2048
"""Objects that went, so many of the last: far more than there are answers on their way."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an object was and is; None for not there."""

    before: Entry | None
    after: Entry | None

    @property
    def entry(self) -> Entry:
        entry = self.after or self.before
        assert entry is not None, "a change has at least one side"  # noqa: S101 - says what the type cannot
        return entry


class Cache:
    def __init__(self, *, terms: Callable[[Entry], Iterable[Term]]) -> None:
        self._terms = terms
        self._entries: defaultdict[str, dict[Id, Entry]] = defaultdict(dict)
        """By kind: whoever wants all of one must not walk through the others."""
        self._by_term: defaultdict[Term, set[Id]] = defaultdict(set)
        self._gone: dict[tuple[str, str], int] = {}
        """By kind and uid, the version at which it went, or left what is looked at."""

    def get(self, kind: str, namespace: str, name: str) -> Entry | None:
        return self._entries[kind].get((kind, namespace, name))

    def find(self, *term: Hashable) -> list[Entry]:
        """Entries with that term, by name."""
        return [self._entries[key[0]][key] for key in sorted(self._by_term.get(term, ()))]

    def all(self, kind: str) -> Iterator[Entry]:
        return iter(list(self._entries[kind].values()))

    def put(self, kind: str, body: Object) -> Change | None:
        """Keeps the object; None when it is known already or older than what is known."""
        return None if self._is_known(kind, body) else self._keep(entry_of(kind, body))

    def _is_known(self, kind: str, body: Object) -> bool:
        """Return whether this version was kept before. Watches repeat the answer of every write of ours."""
        metadata = body["metadata"]
        known = self._entries[kind].get((kind, metadata.get("namespace", ""), metadata["name"]))
        return known is not None and known.resource_version == metadata["resourceVersion"]

    def _keep(self, entry: Entry) -> Change | None:
        kind = entry.kind
        before = self._entries[kind].get(entry.id)
        if before is None and int(entry.resource_version) <= self._gone.get((kind, entry.uid), 0):
            return None
        if before is not None and not _newer(entry, before):
            return None
        self._set(entry.id, entry)
        return Change(before, entry)

    def drop(self, kind: str, namespace: str, name: str, *, uid: str, version: str | None = None) -> Change | None:
        """`version` is that of the news that it went; without one it was asked to go, and may be heard of again."""
        if version is not None:
            self._remember_gone(kind, uid, int(version))
        before = self._entries[kind].get((kind, namespace, name))
        if before is None or before.uid != uid:
            return None
        self._set(before.id, None)
        return Change(before, None)

    def recall(self, kind: str, uid: str) -> None:
        """For an object that is there, though it was heard that it went: it only left what is looked at.

        Both are told alike, with the version of the edit or of the list that missed it, which the object has not
        passed. Whoever reads it afterwards may keep what he reads.
        """
        self._gone.pop((kind, uid), None)

    def replace(self, resource: Resource, listing: Listing[Entry], *, namespace: str | None) -> list[Change]:
        """Takes in a whole list and says what it changed; finds what a watch missed, deletions included."""
        changes = [self._keep(entry) for entry in listing.items]
        listed = {entry.id for entry in listing.items}
        gone = [
            entry
            for entry in self.all(resource.kind)
            if (namespace is None or entry.namespace == namespace)
            and entry.id not in listed
            # What is younger than the list is missing from it for that reason.
            and int(entry.resource_version) <= int(listing.resource_version)
        ]
        version = listing.resource_version
        changes += [self.drop(*entry.id, uid=entry.uid, version=version) for entry in gone]
        return [change for change in changes if change is not None]

    def _remember_gone(self, kind: str, uid: str, version: int) -> None:
        self._gone[kind, uid] = version
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _set(self, key: Id, entry: Entry | None) -> None:
        before = self._entries[key[0]].pop(key, None)
        for term in self._terms(before) if before else ():
            self._by_term[term].discard(key)
            if not self._by_term[term]:
                del self._by_term[term]
        if entry is not None:
            self._entries[key[0]][key] = entry
            for term in self._terms(entry):
                self._by_term[term].add(key)


def _newer(entry: Entry, than: Entry) -> bool:
    """Resource versions grow; Kubernetes documents them as comparable since 1.35.

    Also those of two objects that had one name: it was free before it was taken again.
    """
    return int(entry.resource_version) > int(than.resource_version)
