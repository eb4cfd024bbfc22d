"""The ranges of public IP addresses, and the addresses that every wide range must exclude. Pure.

Public addresses are all IPv4 addresses and the global unicast range of IPv6, without special-purpose ranges. The
excluded ranges are not globally reachable, or are IPv6 ranges that embed an IPv4 address. Sources: IANA's IPv4 and IPv6
Special-Purpose Address Registries, its IPv6 Address Space registry, and the cloud providers' documentation of their
metadata services.
"""

import ipaddress
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Endpoint = tuple[Ip, int]


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


METADATA = _networks(
    "169.254.0.0/16",  # link-local, where most clouds answer
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure
    "fe80::/10",  # link-local
    "fd00:ec2::254/128",  # AWS
    "fd20:ce::254/128",  # Google
    "64:ff9b::a9fe:0/112",  # 169.254.0.0/16 through NAT64
)
"""The addresses of cloud metadata services, which give credentials to every process on a machine."""

_OUTSIDE = {
    ipaddress.ip_network("0.0.0.0/0"): _networks(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ),
    # All global unicast addresses that IANA has assigned so far. Loopback, private, link-local, multicast, mapped and
    # NAT64 addresses are outside this range and need no exception.
    ipaddress.ip_network("2000::/3"): _networks(
        "2001::/23",  # protocol assignments, including Teredo, which leads to IPv4
        "2001:db8::/32",
        "2002::/16",  # 6to4, which leads to IPv4
        "3fff::/20",
    ),
}
_NAT64 = _networks("64:ff9b::/96", "64:ff9b:1::/96")


_BOTH = frozenset({4, 6})


@lru_cache(maxsize=8)
def public_ranges(
    families: frozenset[int], denied: tuple[Network, ...] = ()
) -> tuple[tuple[Network, tuple[Network, ...]], ...]:
    """Return the range of public addresses and its exceptions for each of these IP families.

    The result is cached, because every reconcile needs it and it never changes within an installation.
    """
    wanted = {whole: special for whole, special in _OUTSIDE.items() if whole.version in families}
    unwanted = (*METADATA, *denied)
    return tuple(
        (whole, (*special, *uncovered_networks(whole, special, unwanted))) for whole, special in wanted.items()
    )


def is_globally_routable(ip: Ip) -> bool:
    return any(ip in whole and not any(ip in each for each in excepted) for whole, excepted in public_ranges(_BOTH))


def covers_all_public(network: Network) -> bool:
    """Return whether the network contains all public addresses of its family."""
    return any(contains(network, whole) for whole in _OUTSIDE)


def uncovered_networks(whole: Network, excepted: Sequence[Network], unwanted: Iterable[Network]) -> list[Network]:
    """Return the unwanted networks inside `whole` that its exceptions do not cover yet."""
    lost: list[Network] = []
    for network in unwanted:
        known = any(contains(each, network) for each in (*excepted, *lost))
        if is_inside(network, whole) and not known:
            lost.append(network)
    return lost


def is_inside(part: Network, whole: Network) -> bool:
    """Return whether `part` is a strict subset of `whole`, as a NetworkPolicy requires for `except`."""
    return contains(whole, part) and part != whole


def contains(whole: Network, part: Network) -> bool:
    if isinstance(whole, ipaddress.IPv4Network) and isinstance(part, ipaddress.IPv4Network):
        return part.subnet_of(whole)
    if isinstance(whole, ipaddress.IPv6Network) and isinstance(part, ipaddress.IPv6Network):
        return part.subnet_of(whole)
    return False


def containing_network(networks: Iterable[Network], ip: Ip) -> Network | None:
    """Return the first network that contains the address, or that contains the IPv4 address embedded in it."""
    addresses = {ip, embedded_ipv4(ip)}
    return next((network for network in networks if any(address in network for address in addresses)), None)


def addresses_with_ports(endpoints: Iterable[Endpoint], ports: Container[int]) -> frozenset[Ip]:
    """Return the addresses of the endpoints that have one of these ports."""
    return frozenset(ip for ip, port in endpoints if port in ports)


def embedded_ipv4(ip: Ip) -> Ip:
    """Return the IPv4 address that an IPv6 address embeds, or the address itself."""
    if isinstance(ip, ipaddress.IPv4Address):
        return ip
    if any(ip in each for each in _NAT64):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or ip
