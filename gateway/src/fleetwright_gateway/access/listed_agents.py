"""The agents of each namespace in the order of lists, without replaced agents.

A list of ten thousand agents takes a few milliseconds to sort and filter, so the result is kept until an Agent of the
namespace changes.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.forwarding import is_replaced
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_kube.cache import Change


class ListedAgents:
    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._cached: dict[str, Sequence[AgentView]] = {}
        fleet.observe(self._forget)

    def in_namespaces(self, namespaces: Iterable[str]) -> Sequence[AgentView]:
        """Return the agents of these namespaces, sorted by namespace and name."""
        wanted = sorted(namespaces)
        if any(each not in self._cached for each in wanted):
            self._add(frozenset(wanted) - self._cached.keys())
        return list(chain.from_iterable(self._cached[each] for each in wanted))

    def _add(self, namespaces: Iterable[str]) -> None:
        found: dict[str, list[AgentView]] = {each: [] for each in namespaces}
        for agent in self._fleet.sorted_agents:
            if agent.namespace in found and not is_replaced(agent):
                found[agent.namespace].append(agent)
        self._cached |= found

    def _forget(self, change: Change) -> None:
        if change.entry.kind == names.AGENT:
            self._cached.pop(change.entry.namespace, None)
