"""What an Agent's spec adds to its derived network policy. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.desired.egress import Route
from fleetwright_operator.desired.ranges import block_peer, block_problems

Agent = Mapping[str, Any]


def is_managed(agent: Agent) -> bool:
    """Whether the operator writes the agent's network policy at all."""
    return bool(_network(agent).get("policy", "Managed") == "Managed")


def added_routes(agent: Agent) -> Iterator[Route]:
    for rule in _network(agent).get("egress", ()):
        ports = tuple((port.get("protocol", "TCP"), port["port"]) for port in rule["ports"])
        numbers = ", ".join(f"{protocol} {port}" for protocol, port in ports)
        yield Route(
            to=f"{_text(rule['to'])}, {numbers}",
            why=rule.get("why", "spec.network.egress"),
            peers=(_peer(rule["to"]),),
            ports=ports,
        )


def added_callers(agent: Agent) -> list[dict[str, Any]]:
    """Ingress rules to the A2A port; whoever comes in still needs a token."""
    sources = [_peer(rule["from"]) for rule in _network(agent).get("ingress", ())]
    return [{"from": sources, "ports": [{"protocol": "TCP", "port": names.A2A_PORT}]}] if sources else []


def range_problems(agent: Agent) -> Iterator[str]:
    """Ranges that the API server would refuse, with their place."""
    network = _network(agent)
    peers = [(f"spec.network.ingress[{i}].from", rule["from"]) for i, rule in enumerate(network.get("ingress", ()))]
    peers += [(f"spec.network.egress[{i}].to", rule["to"]) for i, rule in enumerate(network.get("egress", ()))]
    for field, peer in peers:
        if block := peer.get("ipBlock"):
            yield from block_problems(f"{field}.ipBlock", block)


def _network(agent: Agent) -> Mapping[str, Any]:
    network: Mapping[str, Any] = agent["spec"].get("network", {})
    return network


def _peer(peer: Mapping[str, Any]) -> dict[str, Any]:
    if block := peer.get("ipBlock"):
        return block_peer(block)
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
