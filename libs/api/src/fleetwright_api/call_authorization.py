"""The rules for which agent may call which, within a namespace and across namespaces. Pure.

A call needs both sides: the caller names the callee as a peer, and the callee allows the caller. Without
`allowedCallers`, an agent allows its own namespace. Both sides are evaluated by this module, so they cannot disagree.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Agent = Mapping[str, Any]
Identity = tuple[str, str]
"""(namespace, name)"""
NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Labels by namespace. A namespace whose labels could not be read is missing, and matches no selector."""


def identity_of(agent: Agent) -> Identity:
    metadata = agent["metadata"]
    return str(metadata["namespace"]), str(metadata["name"])


def peers_of(agent: Agent) -> tuple[Identity, ...]:
    """Return the agents that the agent names as peers, sorted."""
    own, _ = identity_of(agent)
    return tuple(sorted({_named(peer, own) for peer in agent["spec"].get("peers", ())}))


def allows(callee: Agent, caller: Identity, labels: NamespaceLabels) -> bool:
    own, _ = identity_of(callee)
    allowed = callee["spec"].get("allowedCallers")
    if allowed is None:
        return caller[0] == own
    if any(_named(agent, own) == caller for agent in allowed.get("agents", ())):
        return True
    return _invited(allowed.get("namespaces", {}), own, caller[0], labels)


def authorization_reason(callee: Agent, caller: Identity) -> str:
    """Explain why an allowed caller is allowed."""
    own, _ = identity_of(callee)
    allowed = callee["spec"].get("allowedCallers")
    if allowed is None:
        return "names this agent as a peer, from the same namespace"
    if any(_named(agent, own) == caller for agent in allowed.get("agents", ())):
        return "names this agent as a peer, and spec.allowedCallers.agents lists it"
    return f"names this agent as a peer, and spec.allowedCallers.namespaces has from: {allowed['namespaces']['from']}"


def selects_namespaces(callee: Agent) -> bool:
    """Return whether the allowed callers depend on the labels of namespaces."""
    return bool(callee["spec"].get("allowedCallers", {}).get("namespaces", {}).get("from") == "Selector")


def callers_of(callee: Agent, agents: Iterable[Agent], labels: NamespaceLabels) -> tuple[Identity, ...]:
    """Return the agents that name `callee` as a peer and that it allows, sorted."""
    me = identity_of(callee)
    found = {identity_of(agent) for agent in agents if me in peers_of(agent)}
    return tuple(sorted(caller for caller in found if caller != me and allows(callee, caller, labels)))


def allowed_peers(caller: Agent, agents: Mapping[Identity, Agent], labels: NamespaceLabels) -> tuple[Identity, ...]:
    """Return the peers of `caller` that exist and allow it, sorted."""
    me = identity_of(caller)
    return tuple(
        peer for peer in peers_of(caller) if peer != me and peer in agents and allows(agents[peer], me, labels)
    )


def _named(reference: Mapping[str, Any], own_namespace: str) -> Identity:
    return str(reference.get("namespace", own_namespace)), str(reference["name"])


def _invited(namespaces: Mapping[str, Any], own: str, caller: str, labels: NamespaceLabels) -> bool:
    match namespaces.get("from"):
        case "All":
            return True
        case "Same":
            return caller == own
        case "Selector":
            wanted = namespaces["selector"]["matchLabels"]
            return bool(wanted.items() <= labels.get(caller, {}).items())
    return False
