"""The network settings of an installation, with the rights that its values grant."""

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS
from tests.support.waiting import wait_until

TEXTS = {"type": "array", "items": {"type": "string"}}
LABELS = {
    "type": "object",
    "properties": {"matchLabels": {"type": "object", "additionalProperties": {"type": "string"}}},
}
OUTSIDE = {"name": "m", "baseURL": "https://models.example.com/v1"}


def excepted(space, agent):
    """Return the excluded ranges by range."""
    spec = space.get("NetworkPolicy", agent)["spec"]
    assert "Egress" in spec["policyTypes"], "egress without a rule is denied"
    rules = spec.get("egress", ())
    blocks = [peer["ipBlock"] for rule in rules for peer in rule["to"] if "ipBlock" in peer]
    return {block["cidr"]: block.get("except", []) for block in blocks}


def lacks_a_right(operator):
    """Return True if the operator lacked a right. Errors of namespaces in deletion have another text."""
    return "forbidden: User" in operator.log.read_text()


@pytest.fixture
def listens_at(admin):
    """Publish the addresses of the API server, which publishes none itself on loopback."""

    def say(*addresses):
        admin.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": "kubernetes", "namespace": "default"},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [address]} for address in addresses],
                "ports": [{"name": "https", "port": 443, "protocol": "TCP"}],
            }
        )

    yield say
    admin.delete("EndpointSlice", "default", "kubernetes")


def test_egress_denies_public_api_server_and_denied_ranges(space, alone, listens_at):
    listens_at("34.1.2.3", "10.0.0.5")
    operator = alone("wary", network={"deniedRanges": ["9.9.9.0/24"]}, resyncSeconds=10)
    space.agent("poet", model=OUTSIDE)
    space.wait("Agent", "poet", "Programmed", "True")
    assert {"9.9.9.0/24", "34.1.2.3/32"} <= set(excepted(space, "poet")["0.0.0.0/0"])
    space.agent("spy", model={"name": "m", "baseURL": "https://34.1.2.3/v1"})
    space.wait("Agent", "spy", "Accepted", "False", says="34.1.2.3 is in 34.1.2.3/32, which no agent")

    listens_at("34.1.2.4")
    both = {"34.1.2.3/32", "34.1.2.4/32"}
    space.eventually(
        lambda: both <= set(excepted(space, "poet")["0.0.0.0/0"]),
        "the new address is excepted too",
        promised=LONG_SECONDS,
    )
    assert operator.exit_code() is None, "the operator restarted without a new process"
    assert operator.stop() == 0
    assert not lacks_a_right(operator)


def listed(**properties):
    return {"type": "array", "items": {"type": "object", "properties": properties}}


def cilium_crd():
    """Return the part of Cilium's CRD that the operator writes, with its documented validation."""
    cidr = {"type": "string", "format": "cidr"}
    port = {"port": {"type": "string", "maxLength": 63}, "protocol": {"type": "string", "enum": ["TCP", "UDP", "ANY"]}}
    name = {"type": "string", "maxLength": 255, "pattern": "^([-a-zA-Z0-9_]+[.]?)+$"}
    pattern = {"type": "string", "maxLength": 255, "pattern": "^([-a-zA-Z0-9_*]+[.]?)+$"}
    rules = {"type": "object", "properties": {"dns": listed(matchPattern=pattern)}}
    egress = listed(
        toEndpoints={"type": "array", "items": LABELS},
        toEntities=TEXTS,
        toFQDNs=listed(matchName=name),
        toPorts=listed(ports=listed(**port), rules=rules),
    )
    deny = listed(toCIDRSet=listed(cidr=cidr, **{"except": {"type": "array", "items": cidr}}))
    spec = {"type": "object", "properties": {"endpointSelector": LABELS, "egress": egress, "egressDeny": deny}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    named = {"kind": "CiliumNetworkPolicy", "plural": "ciliumnetworkpolicies", "singular": "ciliumnetworkpolicy"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ciliumnetworkpolicies.cilium.io"},
        "spec": {"group": "cilium.io", "scope": "Namespaced", "names": named, "versions": [version]},
    }


@pytest.fixture
def install_cilium(admin, refusal):
    """Install Cilium's API without its implementation. These tests do not show enforcement."""

    def install():
        admin.apply(cilium_crd())
        wait_until(is_served, "the API of Cilium is served")

    def is_served():
        try:
            admin.list_objects("CiliumNetworkPolicy", "default")
        except refusal:
            return False
        return True

    yield install
    if admin.find("CustomResourceDefinition", "", "ciliumnetworkpolicies.cilium.io"):
        admin.delete("CustomResourceDefinition", "", "ciliumnetworkpolicies.cilium.io")
        # An apply would change the CRD that is being deleted, and the next test would lose it.
        wait_until(
            lambda: admin.find("CustomResourceDefinition", "", "ciliumnetworkpolicies.cilium.io") is None,
            "the CRD of Cilium is deleted",
        )


def test_fqdn_policy_waits_for_the_cilium_api(space, alone, install_cilium):
    operator = alone("named", network={"cilium": True})
    space.agent("poet", model=OUTSIDE)
    space.agent("inner")
    space.wait("Agent", "poet", "Programmed", "False", says="needs cilium.io/v2, which is not served: install Cilium")
    space.wait("Agent", "inner", "Programmed", "True")
    assert space.find("NetworkPolicy", "poet") is None

    install_cilium()
    space.agent("poet", model=OUTSIDE, description="Asks again.")
    space.wait("Agent", "poet", "Programmed", "True")
    policy = space.get("CiliumNetworkPolicy", "poet")
    assert policy["spec"]["egress"][1] == {
        "toFQDNs": [{"matchName": "models.example.com"}],
        "toPorts": [{"ports": [{"port": "443", "protocol": "TCP"}]}],
    }
    assert policy["metadata"]["ownerReferences"][0]["name"] == "poet"
    assert excepted(space, "poet") == {}
    way = {"to": "models.example.com, port 443, by name (Cilium)", "why": "model m"}
    assert way in space.get("Agent", "poet")["status"]["egress"]

    wanted = policy["spec"]
    space.admin.merge("CiliumNetworkPolicy", space.name, "poet", {"spec": {"egress": [{"toEntities": ["all"]}]}})
    space.eventually(
        lambda: space.get("CiliumNetworkPolicy", "poet")["spec"] == wanted,
        "what somebody opened is closed",
        promised=LONG_SECONDS,
    )
    assert "watch lost" not in operator.log.read_text(), "a late API must not count as a lost watch"
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    settled = operator.wait_for_settled_writes()
    assert operator.wait_for_settled_writes() == settled, "nothing is written twice"
    assert operator.stop() == 0
    assert not lacks_a_right(operator)


def test_fqdn_policy_is_removed_when_cilium_is_disabled(space, alone, install_cilium):
    install_cilium()
    first = alone("named", network={"cilium": True})
    space.agent("poet", model=OUTSIDE)
    space.wait("Agent", "poet", "Programmed", "True")
    version = space.get("CiliumNetworkPolicy", "poet")["metadata"]["resourceVersion"]
    assert first.stop() == 0

    second = alone("named", network={"cilium": True})
    second.wait_for_settled_writes()
    assert space.get("CiliumNetworkPolicy", "poet")["metadata"]["resourceVersion"] == version, "no write at a restart"
    assert second.stop() == 0

    last = alone("named", network={"cilium": "remove"})
    space.eventually(lambda: space.find("CiliumNetworkPolicy", "poet") is None, "the policy is gone")
    assert set(excepted(space, "poet")) == {"0.0.0.0/0", "2000::/3"}
    space.wait("Agent", "poet", "Programmed", "True")
    assert last.stop() == 0
    assert not lacks_a_right(last)


def test_cilium_policy_without_right_is_named_as_forbidden(space, alone, install_cilium):
    install_cilium()
    alone("narrow", environment={"FLEETWRIGHT_CILIUM": "true"}, network={"cilium": False})
    space.agent("poet", model=OUTSIDE)
    space.wait(
        "Agent", "poet", "Programmed", "False", says="CiliumNetworkPolicy 'poet' was forbidden by the API server"
    )
    assert space.condition("Agent", "poet", "Programmed")["reason"] == "Forbidden"
    assert space.find("NetworkPolicy", "poet") is None
    assert space.find("Deployment", "poet") is None
