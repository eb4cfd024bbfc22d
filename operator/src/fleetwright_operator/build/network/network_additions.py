"""The rules that an Agent's spec adds to its derived network policy. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any

from fleetwright_api.address_space import Network, addresses_with_ports
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.network import AddedEgressSpec, NetworkPeerSpec, OptionalLabels
from fleetwright_operator.build.network.egress import EgressRule
from fleetwright_operator.build.network.ingress import IngressPeer
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings


def is_managed(spec: AgentSpec) -> bool:
    """Return whether the operator writes the agent's network policy."""
    return spec.network.policy == "Managed"


def added_egress_rules(spec: AgentSpec, settings: Settings) -> Iterator[EgressRule]:
    return added_rules(spec.network.egress, why="spec.network.egress", settings=settings)


def added_rules(added: Sequence[AddedEgressSpec], *, why: str, settings: Settings) -> Iterator[EgressRule]:
    """Yield the routes. Args: `why` is the reason of a rule that gives none."""
    for rule in added:
        ports = tuple((port.protocol, port.port) for port in rule.ports)
        numbers = ", ".join(f"{protocol} {port}" for protocol, port in ports)
        yield EgressRule(
            to=f"{_text(rule.to)}, {numbers}",
            why=why if rule.why is None else rule.why,
            peers=(_peer(rule.to, denied=settings.denied_ranges),),
            ports=ports,
        )


def added_ingress_peers(spec: AgentSpec) -> Iterator[IngressPeer]:
    for rule in spec.network.ingress:
        yield IngressPeer(of=_text(rule.from_), why="spec.network.ingress", peer=_peer(rule.from_))


def range_problems(spec: AgentSpec, settings: Settings) -> Iterator[str]:
    """Yield problems of ranges that the API server or this installation would reject, with their fields."""
    yield from ingress_problems(spec)
    yield from _egress_problems("spec.network.egress", spec.network.egress, settings)
    if spec.workspace is not None:
        yield from _egress_problems("spec.workspace.network.egress", spec.workspace.network.egress, settings)


def _egress_problems(field: str, rules: Sequence[AddedEgressSpec], settings: Settings) -> Iterator[str]:
    for i, rule in enumerate(rules):
        if block := rule.to.ip_block:
            ports = {port.port for port in rule.ports if port.protocol == "TCP"}
            closed = addresses_with_ports(settings.api_server, ports)
            yield from block_problems(f"{field}[{i}].to.ipBlock", block, denied=settings.denied_ranges, closed=closed)


def ingress_problems(spec: AgentSpec) -> Iterator[str]:
    for i, rule in enumerate(spec.network.ingress):
        if block := rule.from_.ip_block:
            yield from block_problems(f"spec.network.ingress[{i}].from.ipBlock", block)


def _peer(peer: NetworkPeerSpec, *, denied: Sequence[Network] = ()) -> dict[str, Any]:
    if peer.ip_block is not None:
        return block_peer(peer.ip_block, denied=denied)
    selectors = {"namespaceSelector": peer.namespace_selector, "podSelector": peer.pod_selector}
    return {key: _selector(selector) for key, selector in selectors.items() if selector is not None}


def _selector(selector: OptionalLabels) -> dict[str, Any]:
    return {"matchLabels": dict(selector.match_labels)} if selector.match_labels else {}


def _text(peer: NetworkPeerSpec) -> str:
    if peer.ip_block is not None:
        return peer.ip_block.cidr
    pods = _labels(peer.pod_selector)
    what = f"pods {pods}" if pods else "all pods"
    if peer.namespace_selector is None:
        return what
    return f"{what} of namespaces {_labels(peer.namespace_selector) or 'of any name'}"


def _labels(selector: OptionalLabels | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items())) if selector else ""
