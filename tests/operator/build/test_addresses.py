"""The meaning of a URL's host for a network policy."""

import ipaddress
import itertools
from typing import Any

import pytest

from fleetwright_kube.cached_object import cached_object
from fleetwright_operator.build.network.addresses import (
    Destination,
    ServiceInfo,
    UnusableAddress,
    destination,
    parse_address,
)
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.settings import Settings

SERVICES = {
    ("shop", "llm"): ServiceInfo(selector={"app": "llm"}, ports={80: "http", 9000: 9001}),
    ("models", "llm"): ServiceInfo(selector={"app": "big"}, ports={443: 8443}),
    ("shop", "each"): ServiceInfo(selector={"app": "each"}, ports={80: 8080}, headless=True),
    ("shop", "outside"): ServiceInfo(selector={}, ports={80: 80}),
}


def find(url: str, **given: Any) -> Destination | str:
    settings = Settings(**given)
    return destination(parse_address(url, namespace="shop", settings=settings), SERVICES, settings)


@pytest.mark.parametrize(
    ("url", "namespace", "app", "port"),
    [
        pytest.param("http://llm/v1", "shop", "llm", "http", id="a bare name is a service of the same namespace"),
        pytest.param("http://llm:9000/v1", "shop", "llm", 9001, id="the target port counts, not the service's"),
        pytest.param("http://each:80/v1", "shop", "each", 80, id="nothing translates the port of a headless one"),
        pytest.param("http://each:8080/v1", "shop", "each", 8080, id="nor need a headless one list it"),
        pytest.param("https://llm.models/v1", "models", "big", 8443, id="name and namespace"),
        pytest.param("https://llm.models.svc/v1", "models", "big", 8443, id="with svc"),
        pytest.param("https://LLM.models.svc.cluster.local./v1", "models", "big", 8443, id="the full name, any case"),
    ],
)
def test_destination_resolves_a_service_to_its_pods(url, namespace, app, port):
    found = find(url)
    assert isinstance(found, Destination)
    (peer,) = found.peers
    assert peer["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    assert peer["podSelector"] == {"matchLabels": {"app": app}}
    assert found.port == port


OUTSIDE = [
    pytest.param("https://api.openai.com/v1", id="three labels"),
    pytest.param("https://openai.com/v1", id="two labels that are no service"),
    pytest.param("https://0x.1password.com/v1", id="numbers before the last label"),
    pytest.param("https://xn--bcher-kva.example/v1", id="letters beyond ASCII as resolvers write them"),
]


@pytest.mark.parametrize("url", OUTSIDE)
def test_destination_resolves_other_hosts_to_both_ip_families(url):
    found = find(url)
    assert isinstance(found, Destination)
    assert [peer["ipBlock"]["cidr"] for peer in found.peers] == ["0.0.0.0/0", "2000::/3"]
    assert found.port == 443


@pytest.mark.parametrize(("family", "whole"), [(4, "0.0.0.0/0"), (6, "2000::/3")], ids=["version 4", "version 6"])
def test_destination_uses_only_the_ip_families_of_the_cluster(family, whole):
    (peer,) = find("https://api.openai.com/v1", ip_families=frozenset({family})).peers
    assert peer["ipBlock"]["cidr"] == whole


PUBLIC = [
    pytest.param("8.8.8.8", id="version 4"),
    pytest.param("192.31.196.1", id="a special address that the Internet routes"),
    pytest.param("2606:4700:4700::1111", id="version 6"),
    pytest.param("2a00:1450:4001:801::200e", id="another registry's version 6"),
]
INNER = [
    pytest.param("0.0.0.1", id="this network"),
    pytest.param("10.1.2.3", id="private 10"),
    pytest.param("100.64.1.1", id="carrier-grade NAT"),
    pytest.param("127.0.0.1", id="loopback"),
    pytest.param("169.254.169.254", id="metadata"),
    pytest.param("168.63.129.16", id="a cloud's own public address"),
    pytest.param("172.31.0.1", id="private 172"),
    pytest.param("192.0.0.8", id="protocol assignments"),
    pytest.param("192.168.1.1", id="private 192"),
    pytest.param("198.18.0.1", id="benchmarks"),
    pytest.param("203.0.113.1", id="documentation"),
    pytest.param("224.0.0.1", id="multicast"),
    pytest.param("255.255.255.255", id="broadcast"),
    pytest.param("::1", id="loopback of version 6"),
    pytest.param("::ffff:10.0.0.1", id="mapped"),
    pytest.param("64:ff9b::a00:1", id="private through NAT64"),
    pytest.param("64:ff9b:1::1", id="private NAT64"),
    pytest.param("100::1", id="discarded"),
    pytest.param("2001::1", id="Teredo"),
    pytest.param("2001:db8::1", id="documentation of version 6"),
    pytest.param("2002:a00:1::1", id="private through 6to4"),
    pytest.param("3fff::1", id="more documentation"),
    pytest.param("5f00::1", id="segment routing"),
    pytest.param("fd00:ec2::254", id="metadata of version 6"),
    pytest.param("fc00::1", id="unique local"),
    pytest.param("fe80::1", id="link-local"),
    pytest.param("fec0::1", id="site-local, long gone"),
    pytest.param("ff02::1", id="multicast of version 6"),
]


def opens(peers, address) -> bool:
    """Return True if an enforcer of the policy would allow this address."""
    ip = ipaddress.ip_address(address)
    blocks = [peer["ipBlock"] for peer in peers]
    return any(
        ip in ipaddress.ip_network(block["cidr"])
        and not any(ip in ipaddress.ip_network(each) for each in block.get("except", ()))
        for block in blocks
    )


@pytest.mark.parametrize("address", PUBLIC)
def test_destination_outside_range_includes_public_addresses(address):
    assert opens(find("https://api.openai.com/v1").peers, address)


@pytest.mark.parametrize("address", INNER)
def test_destination_outside_range_excludes_internal_addresses(address):
    assert not opens(find("https://api.openai.com/v1").peers, address)


def test_destination_outside_exceptions_are_disjoint_subnets():
    for peer in find("https://api.openai.com/v1").peers:
        whole = ipaddress.ip_network(peer["ipBlock"]["cidr"])
        excepted = [ipaddress.ip_network(text) for text in peer["ipBlock"]["except"]]
        assert all(each.subnet_of(whole) and each != whole for each in excepted)
        assert not any(one.overlaps(other) for one, other in itertools.combinations(excepted, 2))


TCP, UDP = {"port": 443, "targetPort": 8443, "protocol": "TCP"}, {"port": 443, "targetPort": 9443, "protocol": "UDP"}
PORTS = [
    pytest.param([TCP, UDP], {443: 8443}, id="UDP after TCP"),
    pytest.param([UDP, TCP], {443: 8443}, id="TCP after UDP"),
    pytest.param([UDP], {}, id="UDP alone is no way for HTTP"),
    pytest.param([{"port": 80}], {80: 80}, id="TCP is what is meant where nothing is said"),
]


@pytest.mark.parametrize(("ports", "wanted"), PORTS)
def test_service_projection_lists_tcp_ports(ports, wanted):
    metadata = {"name": "llm", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    spec = {"selector": {"app": "llm"}, "ports": ports}
    service = cached_object(SCHEME, "Service", {"metadata": metadata, "spec": spec})
    assert service.projection["ports"] == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"clusterIP": "None"}, True, id="without an address of its own"),
        pytest.param({"clusterIP": "10.96.1.2"}, False, id="with one"),
        pytest.param({}, False, id="with none yet"),
    ],
)
def test_service_projection_marks_headless_services(given, wanted):
    metadata = {"name": "llm", "namespace": "shop", "uid": "u", "resourceVersion": "1"}
    assert cached_object(SCHEME, "Service", {"metadata": metadata, "spec": given}).projection["headless"] is wanted


def test_destination_allows_an_ip_address_exactly():
    found = find("http://10.1.2.3:8000/v1")
    assert isinstance(found, Destination)
    assert (found.peers, found.port) == (({"ipBlock": {"cidr": "10.1.2.3/32"}},), 8000)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("http://nowhere/v1", "Service 'nowhere' does not exist in namespace 'shop'", id="no such service"),
        pytest.param("http://llm.far.svc/v1", "does not exist in namespace 'far'", id="no such namespace"),
        pytest.param("http://llm:81/v1", "has no TCP port 81; it has 80, 9000", id="no such port"),
        pytest.param("http://outside/v1", "has no selector", id="a service without pods of its own"),
    ],
)
def test_destination_explains_a_url_that_cannot_be_resolved(url, says):
    found = find(url)
    assert isinstance(found, str)
    assert says in found


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://127.0.0.1/v1", id="loopback"),
        pytest.param("http://[::1]/v1", id="loopback of version 6"),
        pytest.param("http://[::ffff:127.0.0.1]/v1", id="loopback mapped into version 6"),
        pytest.param("http://localhost:8000/v1", id="localhost"),
        pytest.param("http://a.localhost/v1", id="below localhost"),
        pytest.param("http://0.0.0.0/v1", id="no address"),
        pytest.param("http://169.254.169.254/latest", id="the cloud's metadata"),
        pytest.param("http://[fe80::1]/v1", id="link-local of version 6"),
        pytest.param("http://[fd00:ec2::254]/v1", id="the cloud's metadata by version 6"),
        pytest.param("http://[64:ff9b::a9fe:a9fe]/v1", id="the cloud's metadata through NAT64"),
        pytest.param("http://[2002:a9fe:a9fe::1]/v1", id="the cloud's metadata through 6to4"),
        pytest.param("http://168.63.129.16/v1", id="a cloud's own public address"),
        pytest.param("http://224.0.0.1/v1", id="multicast"),
        pytest.param("http://127.1/v1", id="loopback in short"),
        pytest.param("http://0x7f.1/v1", id="loopback in hexadecimal"),
        pytest.param("http://0X7F000001/v1", id="loopback as one number in hexadecimal"),
        pytest.param("http://2130706433/v1", id="loopback as one number"),
        pytest.param("http://0177.0.0.1/v1", id="loopback in octal"),
        pytest.param("http://0xa9.0xfe.0xa9.0xfe/latest", id="the cloud's metadata in hexadecimal"),
        pytest.param("http://127.1./v1", id="loopback in short with the root's dot"),
        pytest.param("http://256.1.1.1/v1", id="a number too large for its place"),
        pytest.param("http://１２７.0.0.1/v1", id="loopback in full-width digits"),
        pytest.param("http://127。0。0。1/v1", id="loopback with ideographic dots"),
        pytest.param("http://user:secret@example.com/v1", id="a password in the address"),
        pytest.param("ftp://example.com/v1", id="another scheme"),
        pytest.param("http://example.com:99999/v1", id="a port that does not exist"),
        pytest.param("http:///v1", id="no host"),
        pytest.param("https://example.com/v1\n", id="a line break"),
        pytest.param("https://exam\tple.com/v1", id="a tab"),
        pytest.param("https://example.com/v 1", id="a space"),
    ],
)
def test_parse_address_refuses_loopback_and_similar(url):
    with pytest.raises(UnusableAddress):
        parse_address(url, namespace="shop", settings=Settings())
