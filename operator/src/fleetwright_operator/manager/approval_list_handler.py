"""Stores the open questions that an agent lists, and queues the Approvals that the list concerns."""

from typing import Any

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.approvals.open_ask import parse_listing
from fleetwright_operator.approvals.open_asks import OpenAsks
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.watch_index import Key


class ApprovalListHandler:
    def __init__(self, cache: Cache, asks: OpenAsks, queue: WorkQueue[Key]) -> None:
        self._cache = cache
        self._asks = asks
        self._queue = queue

    def handle(self, agent: CachedObject, document: Any) -> str | None:
        """Return the version of the list, or None if it is unusable."""
        listing = parse_listing(document, now=self._asks.now)
        if listing is None:
            return None
        space, name = agent.namespace, agent.name
        before = self._asks.approvals(space, name)
        if not self._asks.put(space, name, uid=agent.uid, listing=listing):
            return listing.version
        known = {entry.name for entry in self._cache.find("approval-of", space, name)}.union(before)
        for approval in sorted(known.union(self._asks.approvals(space, name))):
            self._queue.add((names.APPROVAL, space, approval))
        return listing.version
