"""What an installation as a whole decides about networks, with the rights that its values give it."""

import pytest

OUTSIDE = {"name": "m", "baseURL": "https://models.example.com/v1"}


def excepted(space, agent):
    """By range: its exceptions."""
    rules = space.get("NetworkPolicy", agent)["spec"]["egress"]
    blocks = [peer["ipBlock"] for rule in rules for peer in rule["to"] if "ipBlock" in peer]
    return {block["cidr"]: block.get("except", []) for block in blocks}


@pytest.fixture
def listens_at(admin):
    """Says where the API server listens, which it does not do itself on loopback."""

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


def test_no_agent_reaches_an_api_server_at_a_public_address_nor_what_is_denied(space, alone, listens_at):
    listens_at("34.1.2.3", "10.0.0.5")
    operator = alone("wary", network={"deniedRanges": ["9.9.9.0/24"]}, resyncSeconds=10)
    space.agent("poet", model=OUTSIDE)
    space.wait("Agent", "poet", "Programmed", "True")
    assert {"9.9.9.0/24", "34.1.2.3/32"} <= set(excepted(space, "poet")["0.0.0.0/0"])
    space.agent("spy", model={"name": "m", "baseURL": "https://34.1.2.3/v1"})
    space.wait("Agent", "spy", "Accepted", "False", says="34.1.2.3 lies in 34.1.2.3/32, which no agent")

    listens_at("34.1.2.4")
    both = {"34.1.2.3/32", "34.1.2.4/32"}
    space.eventually(
        lambda: both <= set(excepted(space, "poet")["0.0.0.0/0"]), "the new address is excepted too", seconds=60
    )
    assert operator.exit_code() is None, "the process began anew within itself"
    assert operator.stop() == 0
    assert "forbidden" not in operator.log.read_text().lower()
