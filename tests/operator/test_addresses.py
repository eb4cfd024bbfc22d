"""What a host in a URL means for a network policy."""

import pytest

from fleetwright_operator.desired.addresses import (
    Destination,
    ServiceFacts,
    UnusableAddress,
    destination,
    parse_address,
)

SERVICES = {
    ("shop", "llm"): ServiceFacts(selector={"app": "llm"}, ports={80: "http", 9000: 9001}),
    ("models", "llm"): ServiceFacts(selector={"app": "big"}, ports={443: 8443}),
    ("shop", "outside"): ServiceFacts(selector={}, ports={80: 80}),
}


def find(url: str) -> Destination | str:
    return destination(parse_address(url, namespace="shop", cluster_domain="cluster.local"), SERVICES)


@pytest.mark.parametrize(
    ("url", "namespace", "app", "port"),
    [
        pytest.param("http://llm/v1", "shop", "llm", "http", id="a bare name is a service of the same namespace"),
        pytest.param("http://llm:9000/v1", "shop", "llm", 9001, id="the target port counts, not the service's"),
        pytest.param("https://llm.models/v1", "models", "big", 8443, id="name and namespace"),
        pytest.param("https://llm.models.svc/v1", "models", "big", 8443, id="with svc"),
        pytest.param("https://LLM.models.svc.cluster.local./v1", "models", "big", 8443, id="the full name, any case"),
    ],
)
def test_a_service_becomes_its_pods(url, namespace, app, port):
    found = find(url)
    assert isinstance(found, Destination)
    assert found.to["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    assert found.to["podSelector"] == {"matchLabels": {"app": app}}
    assert found.port == port


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("https://api.openai.com/v1", id="three labels"),
        pytest.param("https://openai.com/v1", id="two labels that are no service"),
    ],
)
def test_another_host_is_outside_and_never_an_inner_address(url):
    found = find(url)
    assert isinstance(found, Destination)
    assert found.to["ipBlock"]["cidr"] == "0.0.0.0/0"
    assert {"10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "100.64.0.0/10"} <= set(found.to["ipBlock"]["except"])
    assert found.port == 443


def test_an_address_is_allowed_exactly_as_written():
    found = find("http://10.1.2.3:8000/v1")
    assert isinstance(found, Destination)
    assert (found.to, found.port) == ({"ipBlock": {"cidr": "10.1.2.3/32"}}, 8000)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        pytest.param("http://nowhere/v1", "Service 'nowhere' does not exist in namespace 'shop'", id="no such service"),
        pytest.param("http://llm.far.svc/v1", "does not exist in namespace 'far'", id="no such namespace"),
        pytest.param("http://llm:81/v1", "has no port 81; it has 80, 9000", id="no such port"),
        pytest.param("http://outside/v1", "has no selector", id="a service without pods of its own"),
    ],
)
def test_what_cannot_be_resolved_is_a_sentence(url, says):
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
        pytest.param("http://224.0.0.1/v1", id="multicast"),
        pytest.param("http://user:secret@example.com/v1", id="a password in the address"),
        pytest.param("ftp://example.com/v1", id="another scheme"),
        pytest.param("http://example.com:99999/v1", id="a port that does not exist"),
        pytest.param("http:///v1", id="no host"),
    ],
)
def test_an_address_that_can_never_work_is_refused(url):
    with pytest.raises(UnusableAddress):
        parse_address(url, namespace="shop", cluster_domain="cluster.local")
