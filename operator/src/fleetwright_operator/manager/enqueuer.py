"""Queues the objects that a change concerns."""

from typing import Final

from fleetwright_api import names
from fleetwright_kube.cache import Cache, Change
from fleetwright_kube.write_guard import WriteGuard
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.watch_index import WatchIndex

_KEY_RINGS: Final = frozenset({names.CARD_KEYS, names.GATEWAY_KEYS})
"""Kinds whose changes concern every agent."""


class Enqueuer:
    def __init__(self, watch_index: WatchIndex, cache: Cache, queue: WorkQueue[Key], write_guard: WriteGuard) -> None:
        self._watch_index = watch_index
        self._cache = cache
        self._queue = queue
        self._write_guard = write_guard
        self.live = False
        """Whether the first lists are complete. Until then, all keys go to the backlog."""

    def enqueue(self, change: Change) -> None:
        """Queue the objects that a change by somebody else concerns."""
        for key in self._keys_of(change):
            self._write_guard.note_change(key, change)
            self._add(key, change)

    def enqueue_own(self, change: Change) -> None:
        """Queue the objects that a change by a write of this process concerns."""
        for key in self._keys_of(change):
            self._write_guard.note_own_change(key)
            self._add(key, change)

    def enqueue_woken(self, key: Key) -> None:
        """Queue an object that has another cause than a change, such as a free slot or a list of open questions."""
        self._write_guard.note_cause(key)
        self._queue.add(key)

    def enqueue_reported(self, key: Key) -> None:
        """Queue an object whose status may change, because an agent has reported something else."""
        self._write_guard.note_observation(key)
        self._queue.add(key)

    def _keys_of(self, change: Change) -> list[Key]:
        keys = self._watch_index.keys_to_enqueue(change, self._cache)
        return [key for key in keys if self._cache.get(*key) or key == change.entry.id]

    def _add(self, key: Key, change: Change) -> None:
        self._queue.add(key, fresh=self.live and change.entry.kind not in _KEY_RINGS)
