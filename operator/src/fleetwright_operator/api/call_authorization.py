"""Who may call whom: pure questions about Agents, within a namespace and across.

An edge needs both ends: the caller names the callee as peer, and the callee allows the caller. Unset
`allowedCallers` allows the callee's own namespace. Both ends decide by this file, so they cannot disagree.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Agent = Mapping[str, Any]
Identity = tuple[str, str]
"""(namespace, name)"""
NamespaceLabels = Mapping[str, Mapping[str, str]]
"""By namespace; one whose labels nobody could look at is missing, and matches no selector."""


def identity_of(agent: Agent) -> Identity:
    metadata = agent["metadata"]
    return str(metadata["namespace"]), str(metadata["name"])


def peers_of(agent: Agent) -> tuple[Identity, ...]:
    """The agents that it names as peers, sorted."""
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


def consent(callee: Agent, caller: Identity) -> str:
    """What lets in a caller that is allowed."""
    own, _ = identity_of(callee)
    allowed = callee["spec"].get("allowedCallers")
    if allowed is None:
        return "names it as peer, and its own namespace may"
    if any(_named(agent, own) == caller for agent in allowed.get("agents", ())):
        return "names it as peer, and spec.allowedCallers.agents names it"
    return f"names it as peer, and spec.allowedCallers.namespaces is from: {allowed['namespaces']['from']}"


def selects_namespaces(callee: Agent) -> bool:
    """Whether its callers depend on the labels of namespaces."""
    return bool(callee["spec"].get("allowedCallers", {}).get("namespaces", {}).get("from") == "Selector")


def callers_of(callee: Agent, agents: Iterable[Agent], labels: NamespaceLabels) -> tuple[Identity, ...]:
    """Those of `agents` that name `callee` as peer and that it allows, sorted."""
    me = identity_of(callee)
    found = {identity_of(agent) for agent in agents if me in peers_of(agent)}
    return tuple(sorted(caller for caller in found if caller != me and allows(callee, caller, labels)))


def allowed_peers(caller: Agent, agents: Mapping[Identity, Agent], labels: NamespaceLabels) -> tuple[Identity, ...]:
    """The peers of `caller` that exist and allow it, sorted."""
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
