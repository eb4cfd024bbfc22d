"""Classifies IP addresses: public, private, or local to the machine. Pure.

The runtime has the same tables for its own connections. This package imports none of our packages, so a test compares
the two.
"""

from __future__ import annotations

import ipaddress
from typing import Union

Ip = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


_LOCAL = _networks(
    "0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "224.0.0.0/4",
    "255.255.255.255/32", "::/96", "2001::/32", "2002::/16", "fd00:ec2::254/128", "fd20:ce::254/128", "fe80::/10",
    "fec0::/10", "ff00::/8",
)  # fmt: skip
"""The machine itself, its link, cloud metadata, multicast, unspecified addresses, and tunnelled IPv4."""
_PRIVATE = _networks(
    "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20",
)  # fmt: skip
_CARRIERS = _networks("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/96")
"""IPv4-mapped and NAT64 addresses."""
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")


def embedded_ipv4(ip: Ip) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address inside an IPv4-mapped or NAT64 address; None for other addresses."""
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if any(ip in each for each in _CARRIERS) else None


def local_block(ip: Ip) -> Network | None:
    """Return the narrowest local range that contains the address, or None.

    For an IPv6 address that leads to a local IPv4 address, the range is that one IPv6 address.
    """
    carried = embedded_ipv4(ip)
    if carried is not None:
        return None if local_block(carried) is None else ipaddress.ip_network(ip)
    return max((block for block in _LOCAL if ip in block), key=lambda block: block.prefixlen, default=None)


def is_public(ip: Ip) -> bool:
    """Return whether the address is routed on the Internet."""
    if local_block(ip) is not None or any(ip in block for block in _PRIVATE):
        return False
    return ip.version == 4 or ip in _GLOBAL_UNICAST


def is_within(part: Network, whole: Network) -> bool:
    """Return whether the whole range contains the other one. Ranges of two families never do."""
    if isinstance(part, ipaddress.IPv4Network) and isinstance(whole, ipaddress.IPv4Network):
        return part.subnet_of(whole)
    if isinstance(part, ipaddress.IPv6Network) and isinstance(whole, ipaddress.IPv6Network):
        return part.subnet_of(whole)
    return False
