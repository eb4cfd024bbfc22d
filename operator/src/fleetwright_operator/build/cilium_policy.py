"""Egress to host names, as a CiliumNetworkPolicy, because a plain NetworkPolicy cannot express names. Pure.

Traffic is allowed if any policy allows it. If an agent has routes to host names, the plain NetworkPolicy therefore
contains neither address ranges for these routes nor the DNS rule. A range would allow more addresses than those of the
name. A DNS rule would bypass Cilium's DNS proxy, which learns the addresses of a name. The owner of a name decides
which addresses it resolves to, so this policy denies the forbidden ranges. A deny rule takes precedence over every
allow rule.
"""

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from fleetwright_api.address_space import METADATA, Network, contains
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.network.egress import EgressRule, dns_rule, is_by_name
from fleetwright_operator.settings import Dns, Settings


def plain_rules(egress_rules: Sequence[EgressRule], settings: Settings) -> list[EgressRule]:
    """Return the routes that the plain NetworkPolicy contains."""
    if not any(is_by_name(rule, settings) for rule in egress_rules):
        return list(egress_rules)
    return [rule for rule in egress_rules if not is_by_name(rule, settings) and rule != dns_rule(settings)]


def names_policies(owner: Owner, egress_rules: Sequence[EgressRule], settings: Settings) -> Iterator[Manifest]:
    """Yield one policy if any route leads to a host name."""
    named = [rule for rule in egress_rules if is_by_name(rule, settings)]
    if not named:
        return
    denied = list(_denied(plain_rules(egress_rules, settings), settings))
    yield {
        **manifest("cilium.io/v2", "CiliumNetworkPolicy", name=owner.name, owner=owner),
        "spec": {
            "endpointSelector": {"matchLabels": owner.selector},
            "egress": [*_dns(settings.dns), *(_to_name(rule) for rule in named)],
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


def _to_name(rule: EgressRule) -> dict[str, Any]:
    ports = [{"port": str(port), "protocol": protocol} for protocol, port in rule.ports]
    return {"toFQDNs": [{"matchName": rule.name}], "toPorts": [{"ports": ports}]}


def _denied(plain: Sequence[EgressRule], settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the denied ranges, except ranges that the spec or the DNS settings explicitly allow."""
    opened = [*_ranges(plain), *settings.dns.ranges]
    for network in (*METADATA, *settings.denied_ranges):
        if network.version in settings.ip_families and network not in opened:
            inside = [str(each) for each in opened if contains(network, each)]
            yield {"cidr": str(network), **({"except": inside} if inside else {})}


def _ranges(egress_rules: Sequence[EgressRule]) -> Iterator[Network]:
    for rule in egress_rules:
        for peer in rule.peers:
            if block := peer.get("ipBlock"):
                yield ipaddress.ip_network(block["cidr"])
