"""Egress to host names, as a CiliumNetworkPolicy, because a plain NetworkPolicy cannot express names. Pure.

Policies add up, so these routes must not be in the plain policy as well. A range there would allow more than the name
here, and a plain route to DNS would bypass the proxy that learns the addresses of a name. The owner of a name decides
where it resolves to, so this policy denies the forbidden ranges. A deny rule takes precedence over every allow rule.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from fleetwright_operator.api.address_space import METADATA, Network, contains
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.network.egress import EgressRule, dns_route, is_by_name
from fleetwright_operator.settings import Dns, Settings


def plain_routes(routes: Sequence[EgressRule], settings: Settings) -> list[EgressRule]:
    """Return the routes of the plain NetworkPolicy."""
    if not any(is_by_name(route, settings) for route in routes):
        return list(routes)
    return [route for route in routes if not is_by_name(route, settings) and route != dns_route(settings)]


def names_policies(owner: Owner, routes: Sequence[EgressRule], settings: Settings) -> Iterator[Manifest]:
    """Yield one policy if there is a route by name."""
    named = [route for route in routes if is_by_name(route, settings)]
    if not named:
        return
    denied = list(_denied(plain_routes(routes, settings), settings))
    yield {
        **manifest("cilium.io/v2", "CiliumNetworkPolicy", name=owner.name, owner=owner),
        "spec": {
            "endpointSelector": {"matchLabels": owner.selector},
            "egress": [*_dns(settings.dns), *(_to_name(route) for route in named)],
            **({"egressDeny": [{"toCIDRSet": denied}]} if denied else {}),
        },
    }


def _dns(dns: Dns) -> Iterator[dict[str, Any]]:
    labels = {f"k8s:{key}": value for key, value in dns.pods.labels.items()}
    lookups = {
        "ports": [{"port": str(port), "protocol": "ANY"} for port in dns.ports],
        # Allow every lookup, including those of Services and those with the resolver's search domains.
        "rules": {"dns": [{"matchPattern": "*"}]},
    }
    pods = {"matchLabels": {"k8s:io.kubernetes.pod.namespace": dns.pods.namespace, **labels}}
    yield {"toEndpoints": [pods], "toPorts": [lookups]}
    if dns.ranges:
        yield {"toCIDRSet": [{"cidr": str(each)} for each in dns.ranges], "toPorts": [lookups]}


def _to_name(route: EgressRule) -> dict[str, Any]:
    ports = [{"port": str(port), "protocol": protocol} for protocol, port in route.ports]
    return {"toFQDNs": [{"matchName": route.name}], "toPorts": [{"ports": ports}]}


def _denied(plain: Sequence[EgressRule], settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the denied ranges, without ranges that the spec or DNS explicitly allows."""
    opened = [*_ranges(plain), *settings.dns.ranges]
    for network in (*METADATA, *settings.denied_ranges):
        if network.version in settings.ip_families and network not in opened:
            inside = [str(each) for each in opened if contains(network, each)]
            yield {"cidr": str(network), **({"except": inside} if inside else {})}


def _ranges(routes: Sequence[EgressRule]) -> Iterator[Network]:
    for route in routes:
        for peer in route.peers:
            if block := peer.get("ipBlock"):
                yield ipaddress.ip_network(block["cidr"])
