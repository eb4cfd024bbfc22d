"""Parents and children within a namespace, from `spec.fleet.parent`. Pure.

A parent that does not exist counts as a parent: its children are siblings of each other, and no roots. Every walk ends
at a repeated agent and after `MAX_DEPTH` steps, so a cycle cannot hang it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from fleetwright_api.call_authorization import Identity
from fleetwright_api.spec.agent import AgentView

MAX_DEPTH: Final = 32
Agents = Mapping[Identity, AgentView]
"""Agents by identity. It has all agents of the namespaces in question."""


def parent_of(agent: AgentView) -> Identity | None:
    parent = agent.spec.fleet.parent
    return None if parent is None else (agent.namespace, parent.name)


def ancestors(agent: AgentView, agents: Agents) -> tuple[Identity, ...]:
    """Return the existing ancestors, the parent first; at most `MAX_DEPTH`."""
    return tuple(_walk(agent, agents))


def is_in_cycle(agent: AgentView, agents: Agents) -> bool:
    """Return whether the agent is its own ancestor."""
    me = (agent.namespace, agent.name)
    above = ancestors(agent, agents)
    highest = agents[above[-1]] if above else agent
    return parent_of(highest) == me


def children_of(agent: Identity, agents: Agents) -> tuple[Identity, ...]:
    """Return the agents whose parent this is, sorted."""
    return tuple(sorted(each for each, view in agents.items() if parent_of(view) == agent and each != agent))


def descendants(agent: Identity, agents: Agents) -> tuple[Identity, ...]:
    """Return the children, their children and so on, parents first; down to `MAX_DEPTH` levels."""
    children: dict[Identity, list[Identity]] = {}
    for each, view in sorted(agents.items()):
        parent = parent_of(view)
        if parent is not None:
            children.setdefault(parent, []).append(each)
    found: dict[Identity, None] = {}
    level = [agent]
    for _ in range(MAX_DEPTH):
        level = [child for each in level for child in children.get(each, ()) if child != agent and child not in found]
        found |= dict.fromkeys(level)
    return tuple(found)


def _walk(agent: AgentView, agents: Agents) -> Iterator[Identity]:
    seen = {(agent.namespace, agent.name)}
    above = parent_of(agent)
    while above is not None and above in agents and above not in seen and len(seen) <= MAX_DEPTH:
        yield above
        seen.add(above)
        above = parent_of(agents[above])
