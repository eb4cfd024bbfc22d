"""The hosts, ports and addresses that the proxy connects to. Pure.

The owner of a DNS zone decides to which addresses a name resolves. A host outside of the cluster may therefore resolve
to public addresses, and to addresses in a range that the spec names. A Service of the cluster may have any address,
except those of the machine, its link and the cloud's metadata services. These need a range of the spec that contains
nothing else. An address instead of a name must be in a range of the spec.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fleetwright_workspace.proxy.addresses import Ip, Network, embedded_ipv4, is_public, is_within, local_block

FIELD = "spec.workspace.network.egress"


class EgressRefusedError(Exception):
    """A connection is not allowed. `reason` is for the log, the message says which field of the Agent to change."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class HostRule(NamedTuple):
    """One host that commands may reach."""

    host: str
    ports: frozenset[int]
    lookup: str
    """The name to resolve. It ends with a dot, so that no search domain of the pod is added."""
    is_service: bool
    address: Ip | None = None
    """The host itself, if it is an address. Nothing is resolved then."""


class AllowedRange(NamedTuple):
    """Addresses to which the name of a host may lead, although they are not public."""

    network: Network
    excepted: tuple[Network, ...]
    ports: frozenset[int]


class EgressRules(NamedTuple):
    hosts: Mapping[str, HostRule]
    ranges: tuple[AllowedRange, ...] = ()
    denied: tuple[Network, ...] = ()
    """Ranges that no workspace of this installation may reach."""

    def rule_for(self, host: str, port: int) -> HostRule:
        """Return the rule for a host in lower case.

        Raises:
            EgressRefusedError: The spec does not allow the host, or not with this port.
        """
        ip = _address(host)
        if ip is not None:
            return self._address_rule(ip, port)
        rule = self.hosts.get(host)
        if rule is None:
            entry = f"{{to: {{host: {host}}}, ports: [{{port: {port}}}]}}"
            message = f"{FIELD} has no usable entry for {host}; add {entry}, or read the condition WorkspaceReady"
            raise EgressRefusedError("host not allowed", message)
        if port not in rule.ports:
            ports = ", ".join(map(str, sorted(rule.ports)))
            message = f"{host} is allowed with port {ports} only; add {{port: {port}}} to its ports in {FIELD}"
            raise EgressRefusedError("port not allowed", message)
        return rule

    def _address_rule(self, ip: Ip, port: int) -> HostRule:
        block = local_block(ip)
        if not any(_allows(each, ip, port, block) for each in self.ranges):
            advice = f"Add {_block_entry(ip, port)}. If a podSelector already allows this address, bypass the proxy"
            message = f"{FIELD} has no ipBlock that allows {ip} with port {port}. {advice} with NO_PROXY={ip}."
            raise EgressRefusedError("address not allowed", message)
        return HostRule(str(ip), frozenset([port]), str(ip), is_service=False, address=ip)

    def check_addresses(self, rule: HostRule, port: int, addresses: Sequence[Ip]) -> None:
        """Check all addresses of a host. One that is not allowed denies the host.

        Raises:
            EgressRefusedError: An address is not allowed.
        """
        for ip in addresses:
            self._check_address(rule, port, ip)

    def _check_address(self, rule: HostRule, port: int, ip: Ip) -> None:
        where = f"{rule.host} resolves to {ip}" if rule.address is None else f"the request names {ip}"
        seen = [each for each in (ip, embedded_ipv4(ip)) if each is not None]
        if any(each in network for each in seen for network in self.denied) and not (
            rule.is_service and not any(map(is_public, seen))
        ):
            raise EgressRefusedError(
                "address denied", f"{where}, which the installation denies to all workspaces; ask its administrator"
            )
        block = local_block(ip)
        if any(_allows(each, ip, port, block) for each in self.ranges):
            return
        if block is not None:
            advice = f"only an ipBlock that contains nothing else allows it: add {_block_entry(ip, port)} to {FIELD}"
            message = f"{where}, a loopback, link-local, multicast or cloud metadata address; {advice}"
            raise EgressRefusedError("local address", message)
        if not (rule.is_service or is_public(ip)):
            message = f"{where}, which is not a public address; add {_block_entry(ip, port)} to {FIELD} to allow it"
            raise EgressRefusedError("private address", message)


def _address(host: str) -> Ip | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _block_entry(ip: Ip, port: int) -> str:
    return f"{{to: {{ipBlock: {{cidr: {ip}/{ip.max_prefixlen}}}}}, ports: [{{port: {port}}}]}}"


def _allows(allowed: AllowedRange, ip: Ip, port: int, block: Network | None) -> bool:
    """Return whether the range allows the address. A range that is wider than a local block does not open the block."""
    is_inside = ip in allowed.network and not any(ip in each for each in allowed.excepted)
    return is_inside and port in allowed.ports and (block is None or is_within(allowed.network, block))


def parse_rules(text: str) -> EgressRules:
    """Return the rules of a JSON document of the operator.

    Raises:
        ValueError: The document is malformed.
    """
    try:
        document = json.loads(text)
        hosts = [_host(each) for each in document["hosts"]]
        ranges = tuple(_range(each) for each in document.get("ranges", ()))
        denied = _networks(document.get("denied", ()))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the rules are malformed: {type(error).__name__}: {error}") from None
    return EgressRules({rule.host: rule for rule in hosts}, ranges, denied)


def _host(value: Mapping[str, Any]) -> HostRule:
    name = str(value["host"]).lower()
    lookup = str(value.get("service", name)).rstrip(".")
    return HostRule(name, frozenset(map(int, value["ports"])), f"{lookup}.", "service" in value)


def _range(value: Mapping[str, Any]) -> AllowedRange:
    network = ipaddress.ip_network(value["cidr"])
    return AllowedRange(network, _networks(value.get("except", ())), frozenset(map(int, value["ports"])))


def _networks(texts: Iterable[str]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)
