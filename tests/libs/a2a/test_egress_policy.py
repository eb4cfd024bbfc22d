"""The egress policy for connections that the agent opens, as tables."""

import ipaddress
from dataclasses import replace

import pytest

from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget, UnusableUrl, target_of

PUBLIC = EgressPolicy(everywhere=True)

FORBIDDEN = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.9.9.9",
    "unspecified": "0.0.0.0",
    "the network of this network": "0.1.2.3",
    "metadata and link-local": "169.254.169.254",
    "metadata of Alibaba": "100.100.100.200",
    "metadata of Azure": "168.63.129.16",
    "private, class A": "10.96.0.1",
    "private, class B": "172.20.0.1",
    "private, class C": "192.168.1.1",
    "carrier-grade NAT": "100.64.0.1",
    "protocol assignments": "192.0.0.192",
    "documentation": "192.0.2.1",
    "benchmarks": "198.18.0.1",
    "6to4 relays": "192.88.99.1",
    "multicast": "224.0.0.251",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "loopback of IPv6": "::1",
    "unspecified of IPv6": "::",
    "link-local of IPv6": "fe80::1",
    "site-local of IPv6": "fec0::1",
    "unique local": "fd12::1",
    "metadata of Amazon in IPv6": "fd00:ec2::254",
    "metadata of Google in IPv6": "fd20:ce::254",
    "multicast of IPv6": "ff02::1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:169.254.169.254",
    "a mapped public address": "::ffff:93.184.216.34",
    "IPv4 as it was once carried": "::127.0.0.1",
    "NAT64 to loopback": "64:ff9b::7f00:1",
    "NAT64 to metadata": "64:ff9b::a9fe:a9fe",
    "NAT64 of one's own": "64:ff9b:1::a9fe:a9fe",
    "6to4 to loopback": "2002:7f00:1::",
    "Teredo": "2001:0:1::1",
    "documentation of IPv6": "2001:db8::1",
    "not yet given to anybody": "4000::1",
}


def opens(policy: EgressPolicy, *addresses: str, host: str = "hooks.example.com", port: int = 443) -> bool:
    return policy.allows(EgressTarget(host, port), [ipaddress.ip_address(each) for each in addresses])


@pytest.mark.parametrize("address", [pytest.param(ip, id=f"{what} is not public") for what, ip in FORBIDDEN.items()])
def test_egress_policy_denies_non_public_unless_declared(address: str) -> None:
    assert not opens(PUBLIC, address)
    assert not opens(PUBLIC, address, host=str(ipaddress.ip_address(address)))
    assert opens(EgressPolicy(ranges=(ipaddress.ip_network(address),)), address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "8.8.8.8", "172.32.0.1", "100.128.0.1"])
def test_egress_policy_allows_public_addresses_if_enabled(address: str) -> None:
    assert opens(PUBLIC, address)
    assert not opens(PUBLIC, address, port=6379)
    assert not opens(EgressPolicy(), address)


def test_egress_policy_denies_a_host_with_one_denied_address() -> None:
    assert opens(PUBLIC, "93.184.216.34", "93.184.216.35")
    assert not opens(PUBLIC, "93.184.216.34", "10.0.0.1")
    assert not opens(PUBLIC)


HOOKS = EgressPolicy(hosts=frozenset({EgressTarget("hooks.example.com", 443)}))
WIDE = EgressPolicy(ranges=(ipaddress.ip_network("0.0.0.0/0"),))
OWN = EgressPolicy(ranges=(ipaddress.ip_network("127.0.0.0/8"),))
DENIED = tuple(map(ipaddress.ip_network, ("93.184.0.0/16", "10.9.0.0/16")))


@pytest.mark.parametrize(
    ("policy", "host", "port", "address", "wanted"),
    [
        pytest.param(HOOKS, "hooks.example.com", 443, "10.0.0.1", True, id="a name opens what is private behind it"),
        pytest.param(HOOKS, "hooks.example.com", 443, "93.184.216.34", True, id="and the public one"),
        pytest.param(HOOKS, "hooks.example.com", 80, "10.0.0.1", False, id="on the port that was named with it"),
        pytest.param(HOOKS, "other.example.com", 443, "93.184.216.34", False, id="and for nobody else"),
        pytest.param(HOOKS, "hooks.example.com", 443, "127.0.0.1", False, id="a name never opens loopback"),
        pytest.param(HOOKS, "hooks.example.com", 443, "169.254.169.254", False, id="a name never opens metadata"),
        pytest.param(HOOKS, "hooks.example.com", 443, "::ffff:127.0.0.1", False, id="nor loopback in disguise"),
        pytest.param(HOOKS, "hooks.example.com", 443, "64:ff9b::a9fe:a9fe", False, id="nor metadata through NAT64"),
        pytest.param(HOOKS, "hooks.example.com", 443, "64:ff9b::5db8:d822", True, id="but the world through NAT64"),
        pytest.param(HOOKS, "hooks.example.com", 443, "2002:5db8:d822::", False, id="and nothing through 6to4"),
        pytest.param(HOOKS, "hooks.example.com", 443, "100.64.7.7", True, id="a name opens pods of shared addresses"),
        pytest.param(HOOKS, "hooks.example.com", 443, "240.1.2.3", True, id="and those of reserved ones"),
        pytest.param(HOOKS, "hooks.example.com", 443, "255.255.255.255", False, id="but not everybody at once"),
        pytest.param(WIDE, "x.example.com", 443, "10.0.0.1", True, id="a range opens what it holds"),
        pytest.param(WIDE, "x.example.com", 443, "127.0.0.1", False, id="a wide range does not open loopback"),
        pytest.param(WIDE, "x.example.com", 443, "169.254.169.254", False, id="a wide range does not open metadata"),
        pytest.param(OWN, "x.example.com", 443, "127.0.0.1", True, id="a range of loopback alone does"),
        pytest.param(
            replace(PUBLIC, denied=DENIED), "x.example.com", 443, "93.184.216.34", False,
            id="what the installation denies is not public",
        ),
        pytest.param(
            replace(PUBLIC, denied=DENIED), "x.example.com", 443, "93.185.0.1", True, id="and the rest still is"
        ),
        pytest.param(
            replace(PUBLIC, denied=(ipaddress.ip_network("::/0"),)), "x.example.com", 443, "64:ff9b::808:808", False,
            id="an address that carries another is denied as itself too",
        ),
        pytest.param(
            replace(WIDE, denied=DENIED), "x.example.com", 443, "10.9.0.1", False,
            id="no range opens it, private or not",
        ),
        pytest.param(
            replace(HOOKS, denied=DENIED), "hooks.example.com", 443, "93.184.216.34", False, id="nor does a name"
        ),
        pytest.param(
            replace(HOOKS, denied=DENIED), "hooks.example.com", 443, "64:ff9b::5db8:d822", False,
            id="through NAT64 neither",
        ),
        pytest.param(
            replace(HOOKS, denied=DENIED), "hooks.example.com", 443, "10.9.0.1", True,
            id="the addresses of Services are the network's affair",
        ),
        pytest.param(
            EgressPolicy.declared(["http://10.9.0.1"], denied=DENIED), "10.9.0.1", 80, "10.9.0.1", False,
            id="an address that is written is none of a Service",
        ),
        pytest.param(
            EgressPolicy.declared(["http://127.0.0.1:8000/mcp"]), "127.0.0.1", 8000, "127.0.0.1", True,
            id="an address that is written opens itself",
        ),
        pytest.param(
            EgressPolicy.declared(["http://localhost:8000/mcp"]), "localhost", 8000, "127.0.0.1", True,
            id="localhost says what it is",
        ),
        pytest.param(
            EgressPolicy.declared(["http://localhost:8000/mcp"]), "localhost", 8000, "10.0.0.1", True,
            id="and may be a host of that name",
        ),
    ],
)  # fmt: skip
def test_egress_policy_allows_declared_hosts_and_ranges(
    policy: EgressPolicy, host: str, port: int, address: str, wanted: bool
) -> None:
    assert opens(policy, address, host=host, port=port) is wanted


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        pytest.param("https://hooks.example.com/a?b=c", EgressTarget("hooks.example.com", 443), id="the port of https"),
        pytest.param("http://hooks.example.com", EgressTarget("hooks.example.com", 80), id="the port of http"),
        pytest.param(
            "https://hooks.example.com:8443/", EgressTarget("hooks.example.com", 8443), id="a port that is written"
        ),
        pytest.param(
            "https://HOOKS.example.com./", EgressTarget("hooks.example.com", 443), id="one spelling of a name"
        ),
        pytest.param("http://[::ffff:127.0.0.1]/", EgressTarget("::ffff:7f00:1", 80), id="one spelling of an address"),
        pytest.param("http://127.0.0.1./", EgressTarget("127.0.0.1", 80), id="an address with a dot behind it"),
    ],
)
def test_target_of_returns_host_and_port(url: str, wanted: EgressTarget) -> None:
    assert target_of(url) == wanted


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("ftp://example.com/", id="another scheme"),
        pytest.param("file:///etc/passwd", id="a file"),
        pytest.param("gopher://127.0.0.1:6379/_x", id="a scheme that speaks other protocols"),
        pytest.param("//example.com/", id="no scheme"),
        pytest.param("https:///path", id="no host"),
        pytest.param("https://user@example.com/", id="a user"),
        pytest.param("https://example.com@127.0.0.1/", id="a user that looks like a host"),
        pytest.param("https://example.com:443@127.0.0.1/", id="a user with a password that looks like a port"),
        pytest.param("https://example.com\\@127.0.0.1/", id="a backslash that some read as a slash"),
        pytest.param("https://exa mple.com/", id="a space"),
        pytest.param("https://example.com/\r\nHost: x", id="a line break"),
        pytest.param("https://exämple.com/", id="letters beyond ASCII"),
        pytest.param("https://127.0.0。1/", id="a full stop beyond ASCII"),
        pytest.param("http://2130706433/", id="an address as one number"),
        pytest.param("http://0x7f000001/", id="an address in hexadecimal"),
        pytest.param("http://0x7f.0.0.0x1/", id="an address in hexadecimal parts"),
        pytest.param("http://0177.0.0.1/", id="an address in octal"),
        pytest.param("http://127.1/", id="an address with parts left out"),
        pytest.param("http://127.0.0.1:99999/", id="a port beyond all ports"),
        pytest.param("http://[fe80::1%25eth0]/", id="a scope"),
        pytest.param("http://[::1/", id="half a bracket"),
        pytest.param("http://%31%32%37.0.0.1/", id="an encoded host"),
        pytest.param("https://example.com/" + "a" * 2048, id="too much of it"),
        pytest.param("", id="nothing"),
    ],
)
def test_target_of_refuses_ambiguous_urls(url: str) -> None:
    with pytest.raises(UnusableUrl):
        target_of(url)
