"""A cache of the newest version of every observed object, indexed by identity and by index keys.

The creator of the cache defines the index keys; this module keeps the index up to date. The cache ignores versions that
are older than the cached one, because a late event must not undo a newer response. A list that was read before an
object was deleted does not restore the object, even if its name was reused.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace

from fleetwright_kube.cached_object import CachedObject, cached_object
from fleetwright_kube.port import Listing, Object, Resource
from fleetwright_kube.scheme import Scheme

IndexKey = tuple[Hashable, ...]
Id = tuple[str, str, str]
_REMEMBERED = 2048
"""The number of deleted objects that are remembered. It is far higher than the number of responses in flight."""


@dataclass(frozen=True, slots=True)
class Change:
    """An object before and after a change; None if the object did not exist before or does not exist after it."""

    before: CachedObject | None
    after: CachedObject | None

    @property
    def entry(self) -> CachedObject:
        entry = self.after or self.before
        assert entry is not None, "a change has at least one side"  # noqa: S101 - says what the type cannot
        return entry


class Cache:
    def __init__(self, scheme: Scheme, *, index_keys: Callable[[CachedObject], Iterable[IndexKey]]) -> None:
        self.scheme = scheme
        self._index_keys = index_keys
        self._entries: defaultdict[str, dict[Id, CachedObject]] = defaultdict(dict)
        """The objects by kind, so that reading all objects of one kind does not visit the other kinds."""
        self._by_index_key: defaultdict[IndexKey, set[Id]] = defaultdict(set)
        self._gone: dict[tuple[str, str], int] = {}
        """The version at which an object was deleted or stopped matching the selector, by kind and uid."""
        self._lost: dict[Id, tuple[str, str]] = {}
        """The uid and the controller's uid of cached objects that disappeared, until they exist again."""

    def get(self, kind: str, namespace: str, name: str) -> CachedObject | None:
        return self._entries[kind].get((kind, namespace, name))

    def find(self, *index_key: Hashable) -> list[CachedObject]:
        """Return the objects with this index key, sorted by name."""
        return [self._entries[key[0]][key] for key in sorted(self._by_index_key.get(index_key, ()))]

    def all(self, kind: str) -> Iterator[CachedObject]:
        return iter(list(self._entries[kind].values()))

    def put(self, kind: str, body: Object, *, is_written: bool = False) -> Change | None:
        """Store an object. Return None if this version, or a newer one, is already known.

        Args: `is_written` is true for the response to a write of this process.
        """
        change = None if self._is_known(kind, body) else self._keep(cached_object(self.scheme, kind, body))
        if is_written:
            self._note_written(kind, body["metadata"])
        return change

    def _note_written(self, kind: str, metadata: Object) -> None:
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        entry, generation = self._entries[kind].get(key), metadata.get("generation", 0)
        if entry is not None and entry.uid == metadata["uid"] and entry.written_generation < generation:
            # No index key depends on this field.
            self._entries[kind][key] = replace(entry, written_generation=generation)

    def _is_known(self, kind: str, body: Object) -> bool:
        """Return whether this version is already cached. A watch delivers every version that a write has returned."""
        metadata = body["metadata"]
        known = self._entries[kind].get((kind, metadata.get("namespace", ""), metadata["name"]))
        return known is not None and known.resource_version == metadata["resourceVersion"]

    def _keep(self, entry: CachedObject) -> Change | None:
        kind = entry.kind
        before = self._entries[kind].get(entry.id)
        if before is None and int(entry.resource_version) <= self._gone.get((kind, entry.uid), 0):
            return None
        if before is not None and not _newer(entry, before):
            return None
        if before is not None and before.uid == entry.uid and before.written_generation != entry.generation:
            entry = replace(entry, written_generation=before.written_generation)
        self._set(entry.id, entry)
        return Change(before, entry)

    def drop(self, kind: str, namespace: str, name: str, *, uid: str, version: str | None = None) -> Change | None:
        """Remove an object. `version` is the resource version of the deletion event.

        Without a version, the deletion is not confirmed yet, and the object may appear again.
        """
        if version is not None:
            self._remember_gone(kind, uid, int(version))
        before = self._entries[kind].get((kind, namespace, name))
        if before is None or before.uid != uid:
            return None
        self._set(before.id, None)
        if version is not None and before.is_ours and before.controller is not None:
            self._remember_lost(before.id, uid, before.controller.uid)
        return Change(before, None)

    def find_lost_child(self, key: Id) -> tuple[str, str] | None:
        """Return the uid and the controller's uid of a child that another client has deleted; None if there is none.

        A deletion by this process is not remembered, because `drop` without a version comes first.
        """
        return self._lost.get(key)

    def recall(self, kind: str, uid: str) -> None:
        """Forget the deletion of an object that still exists, but stopped matching the selector for a while.

        A watch reports a removed label as a deletion, and the cache remembers the version of this event. The object's
        version is not newer, so without this method the cache would ignore the object.
        """
        self._gone.pop((kind, uid), None)

    def replace(self, resource: Resource, listing: Listing[CachedObject], *, namespace: str | None) -> list[Change]:
        """Store a whole list and return the changes, including deletions that a watch missed."""
        changes = [self._keep(entry) for entry in listing.items]
        listed = {entry.id for entry in listing.items}
        gone = [
            entry
            for entry in self.all(resource.kind)
            if (namespace is None or entry.namespace == namespace)
            and entry.id not in listed
            # A list does not contain objects that are newer than the list.
            and int(entry.resource_version) <= int(listing.resource_version)
        ]
        version = listing.resource_version
        changes += [self.drop(*entry.id, uid=entry.uid, version=version) for entry in gone]
        return [change for change in changes if change is not None]

    def _remember_gone(self, kind: str, uid: str, version: int) -> None:
        self._gone[kind, uid] = version
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _remember_lost(self, key: Id, uid: str, controller: str) -> None:
        self._lost[key] = (uid, controller)
        if len(self._lost) > _REMEMBERED:
            del self._lost[next(iter(self._lost))]

    def _set(self, key: Id, entry: CachedObject | None) -> None:
        before = self._entries[key[0]].pop(key, None)
        for index_key in self._index_keys(before) if before else ():
            self._by_index_key[index_key].discard(key)
            if not self._by_index_key[index_key]:
                del self._by_index_key[index_key]
        if entry is not None:
            self._lost.pop(key, None)
            self._entries[key[0]][key] = entry
            for index_key in self._index_keys(entry):
                self._by_index_key[index_key].add(key)


def _newer(entry: CachedObject, than: CachedObject) -> bool:
    """Compare resource versions. Kubernetes documents them as comparable since version 1.35.

    Versions of two objects with the same name are comparable too: the first was deleted before the second was created.
    """
    return int(entry.resource_version) > int(than.resource_version)
