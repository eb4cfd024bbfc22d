"""Stores the open questions that an agent lists, and queues the objects that the list concerns."""

from collections.abc import Callable
from typing import Any

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.approvals.approval_listing import NOT_SERVED, parse_listing
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex
from fleetwright_operator.observe.index_keys import Key


class ApprovalListHandler:
    def __init__(self, cache: Cache, asks: OpenApprovalIndex, enqueue: Callable[[Key], None]) -> None:
        self._cache = cache
        self._asks = asks
        self._enqueue = enqueue

    def handle(self, agent: CachedObject, document: Any) -> str | None:
        """Return the version of the list; None if it is unusable, or if the agent does not serve a list."""
        space, name = agent.namespace, agent.name
        if document is NOT_SERVED:
            if self._asks.put_not_served(space, name, uid=agent.uid):
                self._enqueue((names.AGENT, space, name))  # It may go to sleep from now on.
            return None
        listing = parse_listing(document, now=self._asks.now)
        if listing is None:
            return None
        if not self._asks.is_known(space, name, uid=agent.uid):
            self._enqueue((names.AGENT, space, name))  # It may go to sleep from now on.
        before = self._asks.approvals(space, name)
        if not self._asks.put(space, name, uid=agent.uid, listing=listing):
            return listing.version
        known = {entry.name for entry in self._cache.find("approval-of", space, name)}.union(before)
        for approval in sorted(known.union(self._asks.approvals(space, name))):
            self._enqueue((names.APPROVAL, space, approval))
        return listing.version
