"""The result of walking up an agent's ancestors: a missing parent, a cycle, or a suspended ancestor. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_api.call_authorization import Identity
from fleetwright_api.fleet.hierarchy import MAX_DEPTH, parent_of
from fleetwright_api.spec.agent import AgentView

Find = Callable[[Identity], AgentView | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedHierarchy:
    missing_parent: str = ""
    """The parent that the agent names and that does not exist."""
    cycle: tuple[str, ...] = ()
    """The names of the agents in the cycle that contains this agent, from this agent upwards."""
    cascade_parent: AgentView | None = None
    """The parent, if deleting the parent deletes this agent."""
    suspended_with: str = ""
    """The nearest ancestor that is suspended together with its team."""


def observe_hierarchy(agent: AgentView, find: Find) -> ObservedHierarchy:
    """Walk up from the agent. The walk ends at a repeated agent and after `MAX_DEPTH` ancestors."""
    above = parent_of(agent)
    if above is None:
        return ObservedHierarchy()
    me = (agent.namespace, agent.name)
    path = [agent.name]
    suspended_with = ""
    while above is not None and above != me and above[1] not in path and len(path) <= MAX_DEPTH:
        ancestor = find(above)
        if ancestor is None:
            break
        path.append(ancestor.name)
        if not suspended_with and ancestor.spec.suspend and ancestor.spec.fleet.suspend_team:
            suspended_with = ancestor.name
        above = parent_of(ancestor)
    return ObservedHierarchy(
        missing_parent=above[1] if above is not None and len(path) == 1 and above != me else "",
        cycle=tuple(path) if above == me else (),
        cascade_parent=_cascade_parent(agent, find) if above != me else None,
        suspended_with=suspended_with,
    )


def _cascade_parent(agent: AgentView, find: Find) -> AgentView | None:
    above = parent_of(agent)
    parent = None if above is None else find(above)
    return parent if parent is not None and parent.spec.fleet.cascade else None
