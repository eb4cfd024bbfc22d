"""Who may be replaced just now: a few agents at a time, the others one after another as turns become free.

An agent has its turn from before its preflight until its next pod serves. The preflight's policy stands for it, being
written first and deleted last, so that an operator which starts finds every turn in the cluster. Kept in memory is
only who waits, and whose turn has no policy yet. A turn ends by itself after a while: what never serves stops nobody.
"""

from collections.abc import Callable

from fleetwright_operator.encoding.timestamps import moment
from fleetwright_operator.kube.cache import Cache
from fleetwright_operator.observe.watch_index import Key

LONGEST_SECONDS = 15 * 60
"""The preflight, the drain, and the time in which Kubernetes calls a Deployment late, together."""
WAITING_SECONDS = 30
"""How soon an agent that waits looks by itself; mostly it is woken before."""


class Turns:
    def __init__(self, cache: Cache, *, most: int, now: Callable[[], int], wake: Callable[[Key], None]) -> None:
        """`most` have a turn at a time; `wake` is told whose turn it has become."""
        self._cache = cache
        self._most = most
        self._now = now
        self._wake = wake
        self._promised: set[Key] = set()
        """Until the pass that they are for has ended."""
        self._waiting: dict[Key, None] = {}

    def take(self, agent: Key) -> int:
        """How many others have one, where that is too many; 0 where the turn is the agent's from here on."""
        others = self._taken() - {agent}
        if len(others) >= self._most:
            self._waiting.setdefault(agent)
            return len(others)
        self._waiting.pop(agent, None)
        self._promised.add(agent)
        return 0

    def waits(self, agent: Key) -> bool:
        return agent in self._waiting

    def leave(self, agent: Key) -> None:
        self._waiting.pop(agent, None)

    def passed(self, agent: Key) -> None:
        """The agent's pass has ended: its policy stands by now, or it needs none. Free turns go to those who wait."""
        self._promised.discard(agent)
        while self._waiting and len(self._taken()) < self._most:
            following = next(iter(self._waiting))
            del self._waiting[following]
            if self._exists(following):
                self._promised.add(following)
                self._wake(following)

    def _taken(self) -> set[Key]:
        since = self._now() - LONGEST_SECONDS
        policies = [policy for policy in self._cache.find("turn") if moment(policy.created) > since]
        owners = {(owner.kind, each.namespace, owner.name) for each in policies if (owner := each.controller)}
        return {agent for agent in owners | self._promised if self._exists(agent)}

    def _exists(self, agent: Key) -> bool:
        entry = self._cache.get(*agent)
        return entry is not None and not entry.deleting
