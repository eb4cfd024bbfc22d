"""The hosts that commands of a workspace may reach by name. Pure.

A NetworkPolicy selects no names, so commands reach hosts through the egress proxy of their workspace.
"""

from collections.abc import Iterator
from typing import Any

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceEgressSpec, WorkspaceSpec
from fleetwright_operator.build.network.addresses import (
    Destination,
    HostAddress,
    UnusableAddress,
    destination,
    parse_address,
)
from fleetwright_operator.build.network.egress import EgressRule, Services
from fleetwright_operator.build.network.network_additions import added_rules
from fleetwright_operator.settings import Settings

FIELD = "spec.workspace.network.egress"


def has_hosts(workspace: WorkspaceSpec) -> bool:
    return any(rule.to.host is not None for rule in workspace.network.egress)


def host_urls(agent: AgentView) -> Iterator[tuple[str, str]]:
    """Yield (field, URL) for each port of each host. The scheme has no meaning."""
    workspace = agent.spec.workspace
    for i, rule in enumerate(workspace.network.egress if workspace else ()):
        if rule.to.host is not None:
            for port in rule.ports:
                yield f"{FIELD}[{i}].to.host", f"https://{rule.to.host}:{port.port}"


def host_addresses(agent: AgentView, settings: Settings) -> list[tuple[str, HostAddress]]:
    """Return (field, address) for each port of each host, without addresses that can never work."""
    found = []
    for field, url in host_urls(agent):
        try:
            found.append((field, parse_address(url, namespace=agent.namespace, settings=settings)))
        except UnusableAddress:
            continue  # the checks report it
    return found


def proxied_rules(workspace: WorkspaceSpec) -> Iterator[EgressRule]:
    """Yield what commands may reach through the proxy, for the status. The rules have no peers."""
    for rule in workspace.network.egress:
        if rule.to.host is not None:
            numbers = ", ".join(f"TCP {port.port}" for port in rule.ports)
            to = f"{rule.to.host}, {numbers}, through the egress proxy"
            yield EgressRule(to=to, why=FIELD if rule.why is None else rule.why, peers=(), ports=())


def unresolved_hosts(agent: AgentView, services: Services, settings: Settings) -> Iterator[str]:
    """Yield why a host cannot be reached, such as a Service that does not exist. The proxy refuses these hosts."""
    for field, address in host_addresses(agent, settings):
        found = destination(address, services, settings)
        if isinstance(found, str):
            yield f"{field} names {address.host}: {found}"


def _resolved_hosts(
    agent: AgentView, services: Services, settings: Settings
) -> Iterator[tuple[str, HostAddress, Destination]]:
    for field, address in host_addresses(agent, settings):
        found = destination(address, services, settings)
        if isinstance(found, Destination):
            yield field, address, found


def proxy_egress_rules(agent: AgentView, services: Services, settings: Settings) -> Iterator[EgressRule]:
    """Yield what the proxy may reach: the hosts that resolve, and the ranges of the spec."""
    for field, _, found in _resolved_hosts(agent, services, settings):
        yield EgressRule(to=found.text, why=field, peers=found.peers, ports=(("TCP", found.port),))
    yield from added_rules(_ranges(agent), why=FIELD, settings=settings)


def proxy_document(agent: AgentView, services: Services, settings: Settings) -> dict[str, Any]:
    """Return the rules of the proxy, as `fleetwright_workspace.proxy` reads them.

    Hosts that do not resolve are absent: a Service without a selector could lead to any host.
    """
    hosts: dict[str, dict[str, Any]] = {}
    for _, address, _ in _resolved_hosts(agent, services, settings):
        known = hosts.setdefault(address.host, {"host": address.host, "ports": []})
        known["ports"] = sorted({*known["ports"], address.port})
        if address.service is not None and (address.surely_service or address.service in services):
            namespace, name = address.service
            known["service"] = f"{name}.{namespace}.svc.{settings.cluster_domain}"
    ranges = [
        {
            "cidr": rule.to.ip_block.cidr,
            **({"except": list(rule.to.ip_block.except_)} if rule.to.ip_block.except_ else {}),
            "ports": sorted({port.port for port in rule.ports if port.protocol == "TCP"}),
        }
        for rule in _ranges(agent)
        if rule.to.ip_block is not None
    ]
    denied = [str(each) for each in settings.stated_ranges]
    return {
        "hosts": [hosts[name] for name in sorted(hosts)],
        **({"ranges": ranges} if ranges else {}),
        **({"denied": denied} if denied else {}),
    }


def _ranges(agent: AgentView) -> list[WorkspaceEgressSpec]:
    workspace = agent.spec.workspace
    return [rule for rule in workspace.network.egress if rule.to.ip_block is not None] if workspace else []
