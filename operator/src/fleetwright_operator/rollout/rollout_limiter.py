"""Limits concurrent rollouts: a few agents roll out at a time, and the others wait in a queue.

An agent holds a slot from before its preflight until its next pod serves. The preflight's NetworkPolicy represents the
slot. It is written first and deleted last, so a restarted operator finds every slot in the cluster. Memory holds only
the queue, and slots whose policy is not written yet.

A slot expires after a while, so an agent that never serves does not block the others.
"""

from collections.abc import Callable

from fleetwright_kube.cache import Cache
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.observe.index_keys import Key

LONGEST_SECONDS = 15 * 60
"""The time for the preflight, the drain and the progress deadline of a Deployment together."""
WAITING_SECONDS = 30
"""Seconds until a waiting agent is queued again. Usually a free slot triggers its reconcile earlier."""


class RolloutLimiter:
    def __init__(self, cache: Cache, *, limit: int, now: Callable[[], int], wake: Callable[[Key], None]) -> None:
        """Args: `limit` is the number of slots; `wake` is called with each agent that gets a slot."""
        self._cache = cache
        self._most = limit
        self._now = now
        self._wake = wake
        self._reserved: set[Key] = set()
        """Slots that were given to agents whose reconcile has not ended yet."""
        self._waiting: dict[Key, None] = {}

    def acquire(self, agent: Key) -> int:
        """Return 0 if the agent now holds a slot; otherwise return how many agents hold one."""
        others = self._holders() - {agent}
        if len(others) >= self._most:
            self._waiting.setdefault(agent)
            return len(others)
        self._waiting.pop(agent, None)
        self._reserved.add(agent)
        return 0

    def is_waiting(self, agent: Key) -> bool:
        return agent in self._waiting

    def cancel(self, agent: Key) -> None:
        self._waiting.pop(agent, None)

    def release(self, agent: Key) -> None:
        """Release the reservation of a slot after a reconcile. By then the policy represents the slot, or no slot is
        needed.

        Free slots go to waiting agents.
        """
        self._reserved.discard(agent)
        while self._waiting and len(self._holders()) < self._most:
            following = next(iter(self._waiting))
            del self._waiting[following]
            if self._exists(following):
                self._reserved.add(following)
                self._wake(following)

    def _holders(self) -> set[Key]:
        since = self._now() - LONGEST_SECONDS
        policies = [policy for policy in self._cache.find("turn") if parse_timestamp(policy.created) > since]
        owners = {(owner.kind, each.namespace, owner.name) for each in policies if (owner := each.controller)}
        return {agent for agent in owners | self._reserved if self._exists(agent)}

    def _exists(self, agent: Key) -> bool:
        entry = self._cache.get(*agent)
        return entry is not None and not entry.deleting
