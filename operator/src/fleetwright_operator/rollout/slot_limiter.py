"""Limits how many objects roll out, are probed, or have their source cloned at the same time. The others wait.

Objects of the cluster represent the slots, so a restarted operator finds every slot. Memory holds only the queue, and
the slots whose object is not written yet.

An agent holds a rollout slot from before its preflight until its next pod serves. The preflight's NetworkPolicy
represents the slot: it is written first and deleted last. A rollout slot expires after a while, so an agent that never
serves does not block the others. The pod of a probe or of a clone represents the slot of the probe or the clone, and
expires likewise.
"""

from collections.abc import Callable

from fleetwright_kube.cache import Cache
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.status.workload_health import has_ended

LONGEST_SECONDS = 15 * 60
"""The time for the preflight, the drain and the progress deadline of a Deployment together."""
WAITING_SECONDS = 30
"""Seconds until a waiting object is queued again. Usually a free slot triggers its reconcile earlier."""


class SlotLimiter:
    def __init__(
        self, cache: Cache, *, holders: Callable[[], set[Key]], limit: int, wake: Callable[[Key], None]
    ) -> None:
        """Args: `holders` returns the objects whose slot is represented in the cluster.

        `limit` is the number of slots; `wake` is called with each object that gets a slot.
        """
        self._cache = cache
        self._holders = holders
        self._limit = limit
        self._wake = wake
        self._reserved: set[Key] = set()
        """Slots that were given to objects, and that no object of the cluster represents yet."""
        self._waiting: dict[Key, None] = {}

    def take_slot(self, owner: Key) -> int:
        """Return 0 if the object now holds a slot; otherwise return how many objects hold one."""
        others = self._list_holders() - {owner}
        if len(others) >= self._limit:
            self._waiting.setdefault(owner)
            return len(others)
        self._waiting.pop(owner, None)
        self._reserved.add(owner)
        return 0

    def is_waiting(self, owner: Key) -> bool:
        return owner in self._waiting

    def leave_queue(self, owner: Key) -> None:
        self._waiting.pop(owner, None)

    def release_reservation(self, owner: Key) -> None:
        """Release the reservation of a slot, because an object now represents the slot, or no slot is needed.

        Free slots go to waiting objects.
        """
        self._reserved.discard(owner)
        while self._waiting and len(self._list_holders()) < self._limit:
            following = next(iter(self._waiting))
            del self._waiting[following]
            if self._exists(following):
                self._reserved.add(following)
                self._wake(following)

    def _list_holders(self) -> set[Key]:
        return {owner for owner in self._holders() | self._reserved if self._exists(owner)}

    def _exists(self, owner: Key) -> bool:
        entry = self._cache.get(*owner)
        return entry is not None and not entry.deleting


def find_rollouts(cache: Cache, *, now: int) -> set[Key]:
    """Return the agents that roll out."""
    since = now - LONGEST_SECONDS
    policies = [policy for policy in cache.find("turn") if parse_timestamp(policy.created) > since]
    return {(owner.kind, each.namespace, owner.name) for each in policies if (owner := each.controller)}


def find_probed(cache: Cache, *, now: int) -> set[Key]:
    """Return the Skills and McpServers whose probe pod has not ended."""
    return _find_owners_of_active_pods(cache, "probe-pod", now=now)


def find_cloned(cache: Cache, *, now: int) -> set[Key]:
    """Return the Agents whose workspace has a clone pod that has not ended."""
    return _find_owners_of_active_pods(cache, "clone-pod", now=now)


def _find_owners_of_active_pods(cache: Cache, index: str, *, now: int) -> set[Key]:
    """Return the owners of pods that have not ended.

    A pod that no node takes does not block the others for ever: its own deadline begins with its start.
    """
    since = now - LONGEST_SECONDS
    pods = [pod for pod in cache.find(index) if not has_ended(pod) and parse_timestamp(pod.created) > since]
    return {(owner.kind, pod.namespace, owner.name) for pod in pods if (owner := pod.controller)}
