"""The rules that decide which agents may call each other, within a namespace and across namespaces. Pure.

Two conditions must hold: the caller names the callee as a peer, and the callee allows the caller. Without
`allowedCallers`, an agent allows the agents of its namespace. This module evaluates the rules for caller and callee, so
that both get the same result.
"""

from collections.abc import Iterable, Mapping

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.callers import AgentReference, CallerNamespacesSpec

Identity = tuple[str, str]
"""(namespace, name)"""
NamespaceLabels = Mapping[str, Mapping[str, str]]
"""The labels of each namespace. A namespace whose labels could not be read is missing and matches no selector."""


def identity_of(agent: AgentView) -> Identity:
    return agent.namespace, agent.name


def peers_of(agent: AgentView) -> tuple[Identity, ...]:
    """Return the agents that the agent names as peers, sorted."""
    return tuple(sorted({_named(peer, agent.namespace) for peer in agent.spec.peers}))


def allows(callee: AgentView, caller: Identity, labels: NamespaceLabels) -> bool:
    allowed = callee.spec.allowed_callers
    if allowed is None:
        return caller[0] == callee.namespace
    if any(_named(agent, callee.namespace) == caller for agent in allowed.agents):
        return True
    return allowed.namespaces is not None and _invited(allowed.namespaces, callee.namespace, caller[0], labels)


def authorization_reason(callee: AgentView, caller: Identity) -> str:
    """Return the reason why an allowed caller is allowed, as a phrase whose subject is the caller."""
    allowed = callee.spec.allowed_callers
    if allowed is None:
        return "names this agent as a peer, from the same namespace"
    if allowed.namespaces is None or any(_named(agent, callee.namespace) == caller for agent in allowed.agents):
        return "names this agent as a peer, and spec.allowedCallers.agents lists it"
    return f"names this agent as a peer, and spec.allowedCallers.namespaces has from: {allowed.namespaces.from_}"


def selects_namespaces(callee: AgentView) -> bool:
    """Return whether the allowed callers depend on the labels of namespaces."""
    allowed = callee.spec.allowed_callers
    return allowed is not None and allowed.namespaces is not None and allowed.namespaces.from_ == "Selector"


def callers_of(callee: AgentView, agents: Iterable[AgentView], labels: NamespaceLabels) -> tuple[Identity, ...]:
    """Return the agents that name `callee` as a peer and that `callee` allows, sorted."""
    me = identity_of(callee)
    found = {identity_of(agent) for agent in agents if me in peers_of(agent)}
    return tuple(sorted(caller for caller in found if caller != me and allows(callee, caller, labels)))


def allowed_peers(
    caller: AgentView, agents: Mapping[Identity, AgentView], labels: NamespaceLabels
) -> tuple[Identity, ...]:
    """Return the peers of `caller` that exist and allow `caller`, sorted."""
    me = identity_of(caller)
    return tuple(
        peer for peer in peers_of(caller) if peer != me and peer in agents and allows(agents[peer], me, labels)
    )


def _named(reference: AgentReference, own_namespace: str) -> Identity:
    return reference.namespace or own_namespace, reference.name


def _invited(namespaces: CallerNamespacesSpec, own: str, caller: str, labels: NamespaceLabels) -> bool:
    match namespaces.from_:
        case "All":
            return True
        case "Same":
            return caller == own
        case "Selector":
            return namespaces.selector is not None and namespaces.selector.matches(labels.get(caller, {}))
    return False
