"""The peers that may connect to an agent, each with its reason. Pure.

The peers come from the agent's callers and the installation's settings. The policy and the status use the same list, so
they cannot disagree. A caller still needs a token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_api.approval_sources import may_request_approval
from fleetwright_api.call_authorization import Identity, authorization_reason
from fleetwright_api.spec.agent import AgentView
from fleetwright_operator.build.network.addresses import pods
from fleetwright_operator.settings import PodSelector, Settings

_NAMED = 20
"""The largest number of agents that the status names for one peer.

The status lists at most three times as many peers.
"""
_LISTED = 3 * _NAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressPeer:
    of: str
    why: str
    peer: Mapping[str, Any]
    port: int = names.A2A_PORT


def derived_ingress_peers(
    agent: AgentView, *, callers: Sequence[Identity], settings: Settings
) -> Iterator[IngressPeer]:
    """Yield the peers. The first peers exist for every agent; the status may omit some of the last ones."""
    name = agent.name
    invitation = f"{names.MAY_CALL_LABEL}={name}"
    peer = {"podSelector": {"matchLabels": {names.MAY_CALL_LABEL: name}}}
    yield IngressPeer(of=f"pods {invitation} of the same namespace", why="allowed by that label", peer=peer)
    readers = {"scrapes its metrics": settings.monitoring, "the operator, which reads its status": settings.operator}
    for why, source in readers.items():
        if source is not None:
            peer = pods(source.labels, namespace=source.namespace)
            yield IngressPeer(of=_pods_text(source), why=why, peer=peer, port=names.OPS_PORT)
    if settings.operator is not None and may_request_approval(agent.spec):
        peer = pods(settings.operator.labels, namespace=settings.operator.namespace)
        why = "the operator, which reads and answers its approvals"
        yield IngressPeer(of=_pods_text(settings.operator), why=why, peer=peer)
    if settings.gateway is not None:
        yield from _gateway(settings.gateway.pods)
    together: dict[tuple[str, str], list[str]] = {}
    for space, caller in callers:
        together.setdefault((space, authorization_reason(agent, (space, caller))), []).append(caller)
    for (space, why), found in sorted(together.items()):
        peer = {**pods({}, namespace=space), "podSelector": agents(found)}
        yield IngressPeer(of=_agents_text(space, sorted(found)), why=why, peer=peer)


def _gateway(source: PodSelector) -> Iterator[IngressPeer]:
    peer = pods(source.labels, namespace=source.namespace)
    yield IngressPeer(of=_pods_text(source), why="the gateway, which forwards messages", peer=peer)
    why = "the gateway, which waits until the agent is ready"
    yield IngressPeer(of=_pods_text(source), why=why, peer=peer, port=names.OPS_PORT)


def agents(found: Sequence[str]) -> dict[str, Any]:
    """Return a selector for the pods of these agents."""
    return {"matchExpressions": [{"key": names.AGENT_LABEL, "operator": "In", "values": sorted(found)}]}


def ingress_rules(sources: Sequence[IngressPeer]) -> list[dict[str, Any]]:
    """Return the ingress part of a NetworkPolicy."""
    by_port: dict[int, list[dict[str, Any]]] = {}
    for source in sources:
        by_port.setdefault(source.port, []).append(dict(source.peer))
    return [{"from": peers, "ports": [{"protocol": "TCP", "port": port}]} for port, peers in by_port.items()]


def ingress_status(sources: Sequence[IngressPeer]) -> list[dict[str, str]]:
    told = [{"from": f"{source.of}, port {source.port}", "why": source.why} for source in sources[:_LISTED]]
    left = len(sources) - len(told)
    return [*told, {"from": f"{left} more", "why": "the network policy lists all"}] if left else told


def _agents_text(namespace: str, found: Sequence[str]) -> str:
    left = len(found) - _NAMED
    listed = ", ".join(found[:_NAMED]) + (f" and {left} more" if left > 0 else "")
    return f"Agent{'s' if len(found) > 1 else ''} {listed} of namespace {namespace}"


def _pods_text(source: PodSelector) -> str:
    labels = ",".join(f"{key}={value}" for key, value in sorted(source.labels.items()))
    return f"{f'pods {labels}' if labels else 'all pods'} of namespace {source.namespace}"
