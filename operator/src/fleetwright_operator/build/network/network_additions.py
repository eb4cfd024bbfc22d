"""The rules that an Agent's spec adds to its derived network policy. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetwright_api.address_space import Network, addresses_with_ports
from fleetwright_operator.build.network.egress import EgressRule
from fleetwright_operator.build.network.ingress import IngressPeer
from fleetwright_operator.build.network.ranges import block_peer, block_problems
from fleetwright_operator.settings import Settings

Agent = Mapping[str, Any]


def is_managed(agent: Agent) -> bool:
    """Return whether the operator writes the agent's network policy."""
    return bool(_network(agent).get("policy", "Managed") == "Managed")


def added_egress_rules(agent: Agent, settings: Settings) -> Iterator[EgressRule]:
    for rule in _network(agent).get("egress", ()):
        ports = tuple((port.get("protocol", "TCP"), port["port"]) for port in rule["ports"])
        numbers = ", ".join(f"{protocol} {port}" for protocol, port in ports)
        yield EgressRule(
            to=f"{_text(rule['to'])}, {numbers}",
            why=rule.get("why", "spec.network.egress"),
            peers=(_peer(rule["to"], denied=settings.denied_ranges),),
            ports=ports,
        )


def added_ingress_peers(agent: Agent) -> Iterator[IngressPeer]:
    for rule in _network(agent).get("ingress", ()):
        yield IngressPeer(of=_text(rule["from"]), why="spec.network.ingress", peer=_peer(rule["from"]))


def range_problems(agent: Agent, settings: Settings) -> Iterator[str]:
    """Yield problems of ranges that the API server or this installation would reject, with their fields."""
    yield from ingress_problems(agent)
    for i, rule in enumerate(_network(agent).get("egress", ())):
        if block := rule["to"].get("ipBlock"):
            ports = {port["port"] for port in rule["ports"] if port.get("protocol", "TCP") == "TCP"}
            closed = addresses_with_ports(settings.api_server, ports)
            field = f"spec.network.egress[{i}].to.ipBlock"
            yield from block_problems(field, block, denied=settings.denied_ranges, closed=closed)


def ingress_problems(agent: Agent) -> Iterator[str]:
    for i, rule in enumerate(_network(agent).get("ingress", ())):
        if block := rule["from"].get("ipBlock"):
            yield from block_problems(f"spec.network.ingress[{i}].from.ipBlock", block)


def _network(agent: Agent) -> Mapping[str, Any]:
    network: Mapping[str, Any] = agent["spec"].get("network", {})
    return network


def _peer(peer: Mapping[str, Any], *, denied: Sequence[Network] = ()) -> dict[str, Any]:
    if block := peer.get("ipBlock"):
        return block_peer(block, denied=denied)
    selectors = ("namespaceSelector", "podSelector")
    return {key: _selector(peer[key]) for key in selectors if key in peer}


def _selector(selector: Mapping[str, Any]) -> dict[str, Any]:
    labels = selector.get("matchLabels", {})
    return {"matchLabels": dict(labels)} if labels else {}


def _text(peer: Mapping[str, Any]) -> str:
    if block := peer.get("ipBlock"):
        return str(block["cidr"])
    pods = _labels(peer.get("podSelector", {}))
    what = f"pods {pods}" if pods else "all pods"
    if "namespaceSelector" not in peer:
        return what
    return f"{what} of namespaces {_labels(peer['namespaceSelector']) or 'of any name'}"


def _labels(selector: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items()))
