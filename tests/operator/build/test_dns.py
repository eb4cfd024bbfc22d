"""The DNS servers of agents: only the pods and caches that the installation names."""

from dataclasses import replace

import pytest

from fleetwright_operator.build.network.egress import dns_rule, policy_rules
from fleetwright_operator.environment import settings_from
from fleetwright_operator.settings import Cilium, Settings

CACHE = {"FLEETWRIGHT_DNS_CIDRS": "169.254.20.10/32,fd00:10::a/128"}
OTHER = {"FLEETWRIGHT_DNS_PODS": '{"namespace": "openshift-dns", "labels": {}}', "FLEETWRIGHT_DNS_PORTS": "53,5353"}
PLACES = [
    pytest.param({}, "DNS in kube-system, port 53", [], [53], id="as most clusters have it"),
    pytest.param(
        CACHE,
        "DNS in kube-system and at 169.254.20.10/32 and at fd00:10::a/128, port 53",
        ["169.254.20.10/32", "fd00:10::a/128"],
        [53],
        id="with caches on the nodes",
    ),
    pytest.param(OTHER, "DNS in openshift-dns, ports 53, 5353", [], [53, 5353], id="at another place and port"),
]


@pytest.mark.parametrize(("environment", "told", "ranges", "ports"), PLACES)
def test_dns_rule_opens_the_configured_destinations(environment, told, ranges, ports):
    route = dns_rule(settings_from(environment))
    assert route.to == told
    (rule,) = policy_rules([route])
    pods, *caches = rule["to"]
    assert "namespaceSelector" in pods
    assert [cache["ipBlock"]["cidr"] for cache in caches] == ranges
    asked = {(port["protocol"], port["port"]) for port in rule["ports"]}
    assert asked == {(protocol, port) for protocol in ("UDP", "TCP") for port in ports}


async def test_cilium_dns_proxy_covers_node_local_caches(api, objects, make_world):
    """Cilium learns names from DNS caches too, and no denied range precedes their rule."""
    dns = settings_from({**CACHE, **OTHER}).dns
    world = make_world(api, replace(Settings(), cilium=Cilium.ON, dns=dns))
    api.put(objects.agent())
    await world.start()
    await world.settle()
    await world.stop()
    spec = api.find("CiliumNetworkPolicy", "poet")["spec"]
    pods, caches, _ = spec["egress"]
    assert "toEndpoints" in pods
    assert [each["cidr"] for each in caches["toCIDRSet"]] == ["169.254.20.10/32", "fd00:10::a/128"]
    for way in (pods, caches):
        (lookups,) = way["toPorts"]
        assert [port["port"] for port in lookups["ports"]] == ["53", "5353"]
        assert lookups["rules"] == {"dns": [{"matchPattern": "*"}]}
    (denial,) = spec["egressDeny"]
    assert {"cidr": "169.254.0.0/16", "except": ["169.254.20.10/32"]} in denial["toCIDRSet"]
    rules = api.find("NetworkPolicy", "poet")["spec"].get("egress", ())
    assert not [rule for rule in rules if {"ipBlock": {"cidr": "169.254.20.10/32"}} in rule["to"]], (
        "only one of the two has a value"
    )
