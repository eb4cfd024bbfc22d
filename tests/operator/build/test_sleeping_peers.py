"""A caller whose declared peer may sleep: its configuration, its token for the gateway and its egress."""

import pytest

from fleetwright_operator.build.agent import AgentParts, agent_children

GATEWAY = "http://fleetwright-gateway.fleetwright-system"
DIRECT = "http://helper.shop.svc.cluster.local"
SLEEP = {"sleep": {"afterIdle": "15m"}}
REACH = {"fleet": {"reach": "Direct"}}


@pytest.mark.parametrize(
    ("has_gateway", "caller", "peer", "url", "finds_team", "why"),
    [
        pytest.param(True, {}, SLEEP, None, False, "peer helper, which sleeps", id="no reach"),
        pytest.param(True, REACH, SLEEP, None, True, "spec.fleet.reach; peer helper, which sleeps", id="a reach"),
        pytest.param(True, REACH, {}, DIRECT, True, "spec.fleet.reach", id="a reach, and the peer never sleeps"),
        pytest.param(True, {}, {}, DIRECT, False, None, id="the peer never sleeps"),
        pytest.param(True, SLEEP, {}, DIRECT, False, None, id="only the caller sleeps"),
        pytest.param(False, {}, SLEEP, DIRECT, False, None, id="no gateway"),
    ],
)
def test_sleeping_peer_is_reached_through_the_gateway(
    objects, settings, with_gateway, has_gateway, caller, peer, url, finds_team, why
):
    helper, other = objects.agent_view("helper", **peer), objects.agent_view("other", **SLEEP)
    parts = AgentParts(
        agent=objects.agent_view(**caller, peers=[{"name": "helper"}]),
        # `fleetwright dev` passes all agents of the fleet, not only the peers.
        peers={"helper": helper, "other": other},
    )
    children = agent_children(parts, with_gateway if has_gateway else settings)
    (entry,), config = children.rendered.config["peers"], children.rendered.config
    assert (entry["url"], entry.get("throughGateway", False)) == (url or f"{GATEWAY}/agents/shop/helper", url is None)
    assert ("gateway" in config) is finds_team
    volumes = {volume["name"]: volume for volume in children.template["spec"]["volumes"]}
    mounts = {mount["name"] for mount in children.template["spec"]["containers"][0]["volumeMounts"]}
    assert [("gateway-token" in names) for names in (volumes, mounts)] == [why is not None] * 2
    reasons = [rule.why for rule in children.egress_rules if "the gateway" in rule.to]
    assert reasons == ([why] if why else [])


def test_peer_of_another_namespace_is_named_with_it(objects, with_gateway):
    far = objects.agent_view("helper", namespace="far", **SLEEP)
    agent = objects.agent_view(peers=[{"name": "helper", "namespace": "far"}])
    children = agent_children(AgentParts(agent=agent, peers={"helper": far}), with_gateway)
    (entry,) = children.rendered.config["peers"]
    assert entry["url"] == f"{GATEWAY}/agents/far/helper"
    assert [rule.why for rule in children.egress_rules if "the gateway" in rule.to] == ["peer far/helper, which sleeps"]
