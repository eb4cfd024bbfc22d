"""Derives the routes of an agent's egress policy from its references. Each route has a reason."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import peers_of
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.mcp_server import McpServerView, WorkloadSpec
from fleetwright_operator.build.config import push, telemetry, workspace
from fleetwright_operator.build.config.gateway import finds_team, peers_at_gateway
from fleetwright_operator.build.config.models import declared_models
from fleetwright_operator.build.config.models import destination as model_destination
from fleetwright_operator.build.config.skill_permissions import Needs, needed_addresses, needed_ranges
from fleetwright_operator.build.network.addresses import (
    Destination,
    HostAddress,
    ServiceInfo,
    destination,
    has_unseen_endpoints,
    parse_address,
    pods,
    public_peers,
)
from fleetwright_operator.settings import Cilium, Settings

Services = Mapping[tuple[str, str], ServiceInfo]
EVERY_PORT = 0
"""Used instead of a port for a route that allows all ports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRule:
    to: str
    why: str
    peers: tuple[Mapping[str, Any], ...]
    ports: tuple[tuple[str, int | str], ...]
    """(protocol, port)"""
    name: str = ""
    """The host name, if the route leads to a host outside of the cluster."""


def named_addresses(
    agent: AgentView, servers: Mapping[str, McpServerView], needs: Needs, settings: Settings
) -> Iterator[tuple[str, HostAddress]]:
    """Yield (field, address) for every URL of the agent's references.

    Raises:
        UnusableAddress: An address can never work; the checks report it first.
    """
    namespace = agent.namespace
    for url, why in _models(agent.spec, settings).items():
        yield why, parse_address(url, namespace=namespace, settings=settings)
    for name, server in servers.items():
        if remote := server.spec.remote:
            why = f"McpServer {name}{', through its proxy' if remote.proxy_url is not None else ''}"
            yield why, parse_address(remote.destination, namespace=namespace, settings=settings)
    yield from needed_addresses(needs, namespace=namespace, settings=settings)
    for _, url in push.receivers(agent.spec):
        yield push.WHY, parse_address(url, namespace=namespace, settings=settings)
    for url in workspace.web_addresses(agent):
        yield workspace.WHY, parse_address(url, namespace=namespace, settings=settings)
    if collector := telemetry.collector(agent.spec):
        yield telemetry.WHY, parse_address(collector, namespace=namespace, settings=settings)


def _models(spec: AgentSpec, settings: Settings) -> dict[str, str]:
    """Return the texts that describe the agent's models, by address."""
    found: dict[str, list[str]] = {}
    for _, model in declared_models(spec):
        text = f"{model.name}{', through its proxy' if model.proxy_url is not None else ''}"
        found.setdefault(model_destination(model, settings.catalog), []).append(text)
    return {url: f"model {' and '.join(names)}" for url, names in found.items()}


def derived_addresses(
    agent: AgentView, servers: Mapping[str, McpServerView], needs: Needs, services: Services, settings: Settings
) -> Iterator[tuple[str, HostAddress]]:
    """Yield the addresses that rules are derived from.

    Addresses whose endpoints cannot be read are skipped if the spec opens its own ranges or namespaces.

    Raises:
        UnusableAddress: An address can never work; the checks report it first.
    """
    by_hand = opens_by_hand(agent.spec)
    for field, address in named_addresses(agent, servers, needs, settings):
        if not (by_hand and has_unseen_endpoints(address, services, settings)):
            yield field, address


def opens_by_hand(spec: AgentSpec) -> bool:
    """Return whether the spec itself allows destinations outside the agent's namespace."""
    peers = [rule.to for rule in spec.network.egress]
    return any(peer.ip_block is not None or peer.namespace_selector is not None for peer in peers)


def derived_egress_rules(
    agent: AgentView,
    *,
    servers: Mapping[str, McpServerView],
    needs: Needs | None = None,
    peers: Mapping[str, AgentView] | None = None,
    services: Services,
    settings: Settings,
) -> list[EgressRule]:
    """Return the routes of an agent whose references all resolve.

    Raises:
        ValueError: An address does not resolve; the checks report it first.
    """
    namespace = agent.namespace
    egress_rules = [dns_rule(settings)]
    for why, address in derived_addresses(agent, servers, needs or {}, services, settings):
        found = destination(address, services, settings)
        if isinstance(found, str):
            raise ValueError(found)
        egress_rules.append(_rule(found, why, settings))
    egress_rules += [
        _workload(namespace, name, server.spec.workload)
        for name, server in servers.items()
        if server.spec.workload is not None
    ]
    egress_rules += [_range(*needed) for needed in needed_ranges(needs or {}, settings)]
    egress_rules += _to_receivers(agent.spec, settings)
    egress_rules += _to_gateway(agent, peers or {}, settings)
    return egress_rules + [_peer(*peer, own=namespace) for peer in peers_of(agent)]


def policy_rules(egress_rules: list[EgressRule]) -> list[dict[str, Any]]:
    """Return the egress part of a NetworkPolicy. The protocol is always set, because server-side apply requires it."""
    return [
        {
            "to": [dict(peer) for peer in rule.peers],
            "ports": [_port(protocol, port) for protocol, port in rule.ports],
        }
        for rule in egress_rules
    ]


def _port(protocol: str, port: int | str) -> dict[str, Any]:
    return {"protocol": protocol} if port == EVERY_PORT else {"protocol": protocol, "port": port}


def dns_rule(settings: Settings) -> EgressRule:
    dns = settings.dns
    where = " and ".join([f"in {dns.pods.namespace}", *(f"at {each}" for each in dns.ranges)])
    return EgressRule(
        to=f"DNS {where}, port{'s' * (len(dns.ports) > 1)} {', '.join(map(str, dns.ports))}",
        why="to resolve names",
        peers=(
            pods(dns.pods.labels, namespace=dns.pods.namespace),
            *({"ipBlock": {"cidr": str(each)}} for each in dns.ranges),
        ),
        ports=tuple((protocol, port) for port in dns.ports for protocol in ("UDP", "TCP")),
    )


def is_by_name(rule: EgressRule, settings: Settings) -> bool:
    """Return whether the route belongs to the Cilium policy.

    The rule's peers are those that a plain policy would allow instead.
    """
    return bool(rule.name) and settings.cilium is Cilium.ON


def _rule(found: Destination, why: str, settings: Settings) -> EgressRule:
    rule = EgressRule(to=found.text, why=why, peers=found.peers, ports=(("TCP", found.port),), name=found.name)
    if is_by_name(rule, settings):
        return replace(rule, to=f"{found.name}, port {found.port}, by name (Cilium)")
    return rule


def _range(why: str, text: str, peer: Mapping[str, Any], ports: tuple[int, ...]) -> EgressRule:
    to = f"{text}, TCP {', '.join(str(port) for port in ports)}"
    return EgressRule(to=to, why=why, peers=(peer,), ports=tuple(("TCP", port) for port in ports))


def _to_receivers(spec: AgentSpec, settings: Settings) -> Iterator[EgressRule]:
    """Yield the routes to webhook receivers without a host name."""
    for text, peer in push.ranges(spec, settings):
        yield EgressRule(to=f"{text}, every TCP port", why=push.WHY, peers=(peer,), ports=(("TCP", EVERY_PORT),))
    if push.is_open(spec):
        ports = tuple(("TCP", port) for port in push.PORTS)
        to = f"everywhere outside the cluster, ports {', '.join(map(str, push.PORTS))}"
        yield EgressRule(to=to, why=push.WHY, peers=public_peers(settings), ports=ports)


def _to_gateway(agent: AgentView, peers: Mapping[str, AgentView], settings: Settings) -> Iterator[EgressRule]:
    gateway, spec = settings.gateway, agent.spec
    sleeping = [
        _peer_text(peer.namespace, peer.name, own=agent.namespace) for peer in peers_at_gateway(spec, peers, settings)
    ]
    reasons = [
        *(["spec.fleet.reach"] if finds_team(spec, settings) else []),
        *(f"peer {name}, which sleeps" for name in sleeping),
    ]
    if gateway is not None and reasons:
        yield EgressRule(
            to=f"pods of the gateway in namespace {gateway.pods.namespace}, port {gateway.port}",
            why="; ".join(reasons),
            peers=(pods(gateway.pods.labels, namespace=gateway.pods.namespace),),
            ports=(("TCP", gateway.port),),
        )


def _workload(namespace: str, name: str, workload: WorkloadSpec) -> EgressRule:
    port = workload.port
    return EgressRule(
        to=f"pods of McpServer {name}, port {port}",
        why=f"McpServer {name}",
        peers=(pods({names.MCP_SERVER_LABEL: name}, namespace=namespace),),
        ports=(("TCP", port),),
    )


def _peer(namespace: str, name: str, *, own: str) -> EgressRule:
    text = _peer_text(namespace, name, own=own)
    return EgressRule(
        to=f"pods of Agent {text}, port {names.A2A_PORT}",
        why=f"peer {text}",
        peers=(pods({names.AGENT_LABEL: name}, namespace=namespace),),
        ports=(("TCP", names.A2A_PORT),),
    )


def _peer_text(namespace: str, name: str, *, own: str) -> str:
    return name if namespace == own else names.qualified(namespace, name)
