"""Queues the objects that a change concerns."""

from typing import Final

from fleetwright_api import names
from fleetwright_kube.cache import Cache, Change
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.watch_index import WatchIndex

_KEY_RINGS: Final = frozenset({names.CARD_KEYS, names.GATEWAY_KEYS})
"""Kinds whose changes concern every agent."""


class Enqueuer:
    def __init__(self, watch_index: WatchIndex, cache: Cache, queue: WorkQueue[Key]) -> None:
        self._watch_index = watch_index
        self._cache = cache
        self._queue = queue
        self.live = False
        """Whether the first lists are complete. Until then, all keys go to the backlog."""

    def enqueue(self, change: Change) -> None:
        for key in self._watch_index.keys_to_enqueue(change, self._cache):
            if self._cache.get(*key) or key == change.entry.id:
                self._queue.add(key, fresh=self.live and change.entry.kind not in _KEY_RINGS)
