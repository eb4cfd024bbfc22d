"""The special addresses of the operator and of the runtime, which must be the same."""

import ipaddress

import pytest

from fleetwright_a2a.outbound.policy.addresses import is_public, local_block
from fleetwright_api.address_space import METADATA, containing_network, is_globally_routable
from fleetwright_workspace.proxy import addresses as proxy_addresses

# The ranges of the IANA IPv4 and IPv6 Special-Purpose Address Registries, with their value of "globally reachable".
REGISTRY = {
    "0.0.0.0/8": False, "10.0.0.0/8": False, "100.64.0.0/10": False, "127.0.0.0/8": False, "169.254.0.0/16": False,
    "172.16.0.0/12": False, "192.0.0.0/24": False, "192.0.0.0/29": False, "192.0.0.8/32": False, "192.0.0.9/32": True,
    "192.0.0.10/32": True, "192.0.0.170/32": False, "192.0.0.171/32": False, "192.0.2.0/24": False,
    "192.31.196.0/24": True, "192.52.193.0/24": True, "192.88.99.0/24": False, "192.168.0.0/16": False,
    "192.175.48.0/24": True, "198.18.0.0/15": False, "198.51.100.0/24": False, "203.0.113.0/24": False,
    "224.0.0.0/4": False, "240.0.0.0/4": False, "255.255.255.255/32": False,
    "::/128": False, "::1/128": False, "::ffff:0:0/96": False, "64:ff9b::/96": True, "64:ff9b:1::/48": False,
    "100::/64": False, "100:0:0:1::/64": False, "2001::/23": False, "2001::/32": False, "2001:1::1/128": True,
    "2001:1::2/128": True, "2001:1::3/128": True, "2001:2::/48": False, "2001:3::/32": True, "2001:4:112::/48": True,
    "2001:10::/28": False, "2001:20::/28": True, "2001:30::/28": True, "2001:db8::/32": False, "2002::/16": False,
    "2620:4f:8000::/48": True, "3fff::/20": False, "5f00::/16": False, "fc00::/7": False, "fe80::/10": False,
    "ff00::/8": False,
}  # fmt: skip
STRICTER = {"192.0.0.9/32", "192.0.0.10/32", "64:ff9b::/96", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128",
            "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28"}  # fmt: skip
"""Globally reachable ranges that both treat as internal.

They are anycast services and protocol identifiers, which no receiver, peer or server has. NAT64 leads to any IPv4
address.
"""


def inside(network):
    """Return the first, the middle and the last address of a network."""
    first, last = int(network.network_address), int(network.broadcast_address)
    return [type(network.network_address)(each) for each in (first, (first + last) // 2, last)]


def beside(network):
    """Return the addresses before and after a network."""
    kind, most = type(network.network_address), 2**network.max_prefixlen - 1
    numbers = (int(network.network_address) - 1, int(network.broadcast_address) + 1)
    return [kind(each) for each in numbers if 0 <= each <= most]


@pytest.mark.parametrize("text", [*REGISTRY, *map(str, METADATA)])
def test_address_checks_agree_on_public_addresses(text):
    network = ipaddress.ip_network(text)
    addresses = [*inside(network), *beside(network)]
    assert {str(ip): is_public(ip) for ip in addresses} == {str(ip): is_globally_routable(ip) for ip in addresses}


@pytest.mark.parametrize(("text", "reachable"), REGISTRY.items())
def test_address_checks_call_reserved_networks_not_public(text, reachable):
    assert {is_public(ip) for ip in inside(ipaddress.ip_network(text))} == {reachable and text not in STRICTER}


@pytest.mark.parametrize("text", [*REGISTRY, *map(str, METADATA)])
def test_egress_proxy_classifies_addresses_as_the_runtime(text):
    network = ipaddress.ip_network(text)
    for ip in [*inside(network), *beside(network)]:
        assert proxy_addresses.is_public(ip) == is_public(ip), ip
        assert proxy_addresses.local_block(ip) == local_block(ip), ip


DISGUISES = [
    pytest.param("{}", id="as it is"),
    pytest.param("::ffff:{}", id="mapped"),
    pytest.param("64:ff9b::{}", id="through NAT64"),
    pytest.param("64:ff9b:1::{}", id="through a NAT64 of one's own"),
]


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("address", ["169.254.169.254", "100.100.100.200", "168.63.129.16"])
def test_address_checks_find_metadata_in_every_notation(address, disguise):
    ip = ipaddress.ip_address(disguise.format(address))
    assert local_block(ip) is not None
    assert containing_network(METADATA, ip) is not None


def test_address_checks_find_ipv6_metadata_addresses():
    for network in METADATA:
        assert local_block(network.network_address) is not None, network
