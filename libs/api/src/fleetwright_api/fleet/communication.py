"""Decides which agents may communicate. The gateway and the tests use this module. Pure.

An edge between two agents exists for one of two reasons:

- Their places in the hierarchy, within one namespace. The reach of each of the two must include the other.
- Static consent: the caller names the callee as a peer, and the callee allows the caller (`call_authorization`). This
  also holds across namespaces.
"""

from fleetwright_api.call_authorization import (
    Identity,
    NamespaceLabels,
    allows,
    authorization_reason,
    identity_of,
    peers_of,
)
from fleetwright_api.fleet.hierarchy import Agents, ancestors, parent_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.fleet import DIRECT, LINEAGE


def may_communicate(caller: Identity, callee: Identity, agents: Agents, labels: NamespaceLabels) -> bool:
    """Return whether the caller may find and call the callee.

    Args:
        caller: The agent that sends the message.
        callee: The agent that receives it.
        agents: All agents of both namespaces.
        labels: Labels of the caller's namespace, for callees that select namespaces.
    """
    return communication_reason(caller, callee, agents, labels) is not None


def communication_reason(caller: Identity, callee: Identity, agents: Agents, labels: NamespaceLabels) -> str | None:
    """Explain why the caller may communicate with the callee; None if it may not. An agent may see itself."""
    if caller not in agents or callee not in agents:
        return None
    if caller == callee:
        return "is the agent itself"
    source, target = agents[caller], agents[callee]
    if callee in peers_of(source) and allows(target, caller, labels):
        return authorization_reason(target, caller)
    relation = _relation(source, target, agents)
    if relation is None:
        return None
    needed = LINEAGE if relation in {"ancestor", "descendant"} else DIRECT
    if _reaches(source, needed) and _reaches(target, needed):
        return f"is a {relation}" if relation != "ancestor" else "is an ancestor"
    return None


def colleagues(caller: Identity, agents: Agents, labels: NamespaceLabels) -> tuple[Identity, ...]:
    """Return the other agents that the caller may communicate with, sorted."""
    if caller not in agents:
        return ()
    # Only peers can be in another namespace.
    named = set(peers_of(agents[caller]))
    near = (each for each in agents if each != caller and (each[0] == caller[0] or each in named))
    return tuple(sorted(each for each in near if may_communicate(caller, each, agents, labels)))


def _reaches(agent: AgentView, needed: str) -> bool:
    reach = agent.spec.fleet.reach
    return reach == LINEAGE or reach == needed == DIRECT


def _relation(source: AgentView, target: AgentView, agents: Agents) -> str | None:
    """Return what the source is to the target, or None if they are unrelated or in different namespaces."""
    if source.namespace != target.namespace:
        return None
    me, other = identity_of(source), identity_of(target)
    if parent_of(target) == me:
        return "parent"
    if parent_of(source) == other:
        return "child"
    if parent_of(source) == parent_of(target):
        return "sibling"
    if me in ancestors(target, agents):
        return "ancestor"
    if other in ancestors(source, agents):
        return "descendant"
    return None
