"""Resolves an address in a spec to network policy peers: pods behind a Service, one IP, or public addresses. Pure.

A network policy selects pods, not names. The host of a Service (`name`, `name.namespace`,
`name.namespace.svc[.domain]`) becomes the Service's pods on their target port. Policies are enforced after the
Service's address was translated to that of a pod. For a headless Service the port of the URL is used. `name.namespace`
is a Service only if one exists, because it may also be a domain. If the operator cannot read that namespace, it treats
the host of an https URL as a domain.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from fleetwright_api import names
from fleetwright_api.address_space import (
    METADATA,
    Ip,
    addresses_with_ports,
    containing_network,
    embedded_ipv4,
    public_ranges,
)
from fleetwright_operator.settings import Settings

_NUMBER = re.compile("[0-9]+|0x[0-9a-f]*")
_BY_HOST = "use the host that it points to instead"


class UnusableAddress(ValueError):  # noqa: N818 - a condition's reason has this name
    """The address can never work from a pod; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    host: str
    port: int
    service: tuple[str, str] | None = None
    """(namespace, name) if the host may be a Service."""
    surely_service: bool = False
    encrypted: bool = False
    """True for an https URL.

    Hosts outside of the cluster use https, but few Services have a certificate for a name of two labels.
    """
    ip: str | None = None

    @property
    def text(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """The parts of a Service that a policy needs: its pod selector, and the target port by Service port."""

    selector: Mapping[str, str]
    ports: Mapping[int, int | str]
    headless: bool = False
    """True for a headless Service. Its name resolves to pods, so no port is translated and ports need not be listed."""
    cluster_ip: str = ""
    """The address that the API server has assigned; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The peers of one policy rule, with one port."""

    text: str
    peers: tuple[Mapping[str, Any], ...]
    port: int | str
    name: str = ""
    """The name of a host outside of the cluster; empty for an IP address or a Service."""


def parse_address(url: str, *, namespace: str, settings: Settings) -> HostAddress:
    """Parse a URL in an object of `namespace`.

    Raises:
        UnusableAddress: The text is not an http(s) URL, or the address leads to the pod itself or the node, or the
            installation denies it.
    """
    if not url.isprintable() or " " in url:
        # `urlsplit` removes line breaks and tabs, but the agent's HTTP client does not.
        raise UnusableAddress(f"{url!r} contains white space or a control character; remove it")
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError):
        raise UnusableAddress(f"{url!r} is not an HTTP URL; use http:// or https://") from None
    host = (parts.hostname or "").rstrip(".")
    if not host or parts.username is not None:
        raise UnusableAddress(f"{url!r} must contain a host and no user or password")
    if ip := _ip(host):
        _refuse_local(ip)
        if found := containing_network(settings.denied_ranges, ip):
            raise UnusableAddress(f"{ip} is in {found}, which no agent of this installation may reach")
        if {ip, embedded_ipv4(ip)} & addresses_with_ports(settings.api_server, {port}):
            raise UnusableAddress(f"{ip} port {port} is the API server, which no agent of this installation may reach")
        return HostAddress(host=host, port=port, ip=str(ip))
    if host == "localhost" or host.endswith(".localhost"):
        raise UnusableAddress(f"{host} is the agent's own pod; use a Service or a reachable host")
    _refuse_odd(host)
    service, surely = _service(host, namespace=namespace, cluster_domain=settings.cluster_domain)
    encrypted = parts.scheme == "https"
    return HostAddress(host=host, port=port, service=service, surely_service=surely, encrypted=encrypted)


def destination(
    address: HostAddress, services: Mapping[tuple[str, str], ServiceInfo], settings: Settings
) -> Destination | str:
    """Return the policy peers of an address, or an error message that says what is missing."""
    if address.ip is not None:
        width = 32 if "." in address.ip else 128
        block = {"ipBlock": {"cidr": f"{address.ip}/{width}"}}
        return Destination(text=address.text, peers=(block,), port=address.port)
    facts = services.get(address.service) if address.service else None
    if address.service is not None and facts is not None:
        return _pods_of(address, address.service, facts)
    if address.service is not None and _may_be_out_of_sight(address, settings):
        return _out_of_sight(address, address.service, settings)
    if address.service is not None and address.surely_service:
        return f"Service {address.service[1]!r} does not exist in namespace {address.service[0]!r}"
    return Destination(
        text=f"{address.text}, outside the cluster",
        peers=public_peers(settings),
        port=address.port,
        name=address.host,
    )


def has_unseen_endpoints(
    address: HostAddress, services: Mapping[tuple[str, str], ServiceInfo], settings: Settings
) -> bool:
    """Return whether the endpoints are unknown: a Service without a selector, or in a namespace that is not watched."""
    facts = services.get(address.service) if address.service else None
    return _may_be_out_of_sight(address, settings) if facts is None else not facts.selector


def _may_be_out_of_sight(address: HostAddress, settings: Settings) -> bool:
    """Return whether the address is, or may be, a Service in a namespace that this installation does not watch."""
    elsewhere = address.service and settings.namespaces and address.service[0] not in settings.namespaces
    return bool(elsewhere) and (address.surely_service or not address.encrypted)


def _out_of_sight(address: HostAddress, service: tuple[str, str], settings: Settings) -> str:
    namespace, name = service
    if address.surely_service:
        unseen = f"namespace {namespace!r} is not watched by this installation"
        return f"{unseen}; add it to the namespaces of the chart"
    whole = f"{name}.{namespace}.svc.{settings.cluster_domain}"
    unseen = f"it may be a Service of namespace {namespace!r}, which this installation does not watch"
    return f"{unseen}; write {whole} if it is one, or use https for a host outside"


def _pods_of(address: HostAddress, service: tuple[str, str], facts: ServiceInfo) -> Destination | str:
    namespace, name = service
    if not facts.selector:
        return f"Service {name!r} of namespace {namespace!r} has no selector, so its pods cannot be allowed; {_BY_HOST}"
    if address.port not in facts.ports and not facts.headless:
        known = ", ".join(str(port) for port in sorted(facts.ports)) or "none"
        return f"Service {name!r} of namespace {namespace!r} has no TCP port {address.port}; it has {known}"
    port = address.port if facts.headless else facts.ports[address.port]
    return Destination(
        text=f"pods of Service {names.qualified(namespace, name)}, port {port}",
        peers=(pods(facts.selector, namespace=namespace),),
        port=port,
    )


def pods(labels: Mapping[str, str], *, namespace: str) -> dict[str, Any]:
    """Return a policy peer for pods of a namespace. The peer always names the namespace, even the policy's own."""
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": dict(labels)} if labels else {},
    }


def _service(host: str, *, namespace: str, cluster_domain: str) -> tuple[tuple[str, str] | None, bool]:
    for suffix in (f".svc.{cluster_domain}", ".svc"):
        if host.endswith(suffix):
            labels = host.removesuffix(suffix).split(".")
            return ((labels[1], labels[0]), True) if len(labels) == 2 else (None, False)
    labels = host.split(".")
    if len(labels) == 1:
        return (namespace, host), True
    return ((labels[1], labels[0]), False) if len(labels) == 2 else (None, False)


def public_peers(settings: Settings) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {"ipBlock": {"cidr": str(whole), "except": [str(each) for each in excepted]}}
        for whole, excepted in public_ranges(settings.ip_families, settings.denied_ranges)
    )


def _ip(host: str) -> Ip | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _refuse_odd(host: str) -> None:
    """Reject a host that resolvers would read as an IP address, such as 127.1, 0x7f.1 or full-width digits."""
    if not host.isascii():
        raise UnusableAddress(f"{host!r} has non-ASCII characters; write it in punycode, with xn--")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        by_name = "an IPv4 address as four decimal numbers without leading zeros, a Service by its full name"
        raise UnusableAddress(f"{host} ends in a number, which resolvers interpret differently; write {by_name}")


def _refuse_local(ip: Ip) -> None:
    address = embedded_ipv4(ip)
    if address.is_loopback or address.is_unspecified:
        raise UnusableAddress(f"{ip} is the agent's own pod; use a Service or a reachable host")
    if address.is_link_local or address.is_multicast or containing_network(METADATA, ip):
        raise UnusableAddress(
            f"{ip} is an address of the node or of the cloud's metadata service, which agents may not reach"
        )
