"""Push notifications on a real API server: egress, and the keys and their rotation, with the chart's rights."""

import time


def ask(space, secret):
    wish = {"metadata": {"annotations": {"fleetwright.dev/rotate": str(time.time_ns())}}}
    space.admin.merge("Secret", space.name, secret, wish)


def keys(space):
    return space.secret("poet-push").get("keys", "").split()


def test_push_opens_egress_to_allowed_hosts_and_rotates_keys(space, operator):
    """An agent may notify the hosts it allows, and its push keys rotate."""
    named = {"allowedHosts": ["hooks.example.com", "10.0.0.7:9000"], "allowedCIDRs": ["10.20.0.0/16"]}
    space.agent("poet", a2a={"push": named})
    space.wait("Agent", "poet", "Programmed", "True")
    rules = space.get("NetworkPolicy", "poet")["spec"]["egress"]
    (ranged,) = [rule["ports"] for rule in rules if {"ipBlock": {"cidr": "10.20.0.0/16"}} in rule["to"]]
    assert ranged == [{"protocol": "TCP"}]
    (exact,) = [rule["ports"] for rule in rules if {"ipBlock": {"cidr": "10.0.0.7/32"}} in rule["to"]]
    assert exact == [{"protocol": "TCP", "port": 9000}]
    told = [way["to"] for way in space.get("Agent", "poet")["status"]["egress"] if way["why"] == "push notifications"]
    assert told == ["hooks.example.com:443, outside the cluster", "10.0.0.7:9000", "10.20.0.0/16, every TCP port"]

    (first,) = keys(space)
    ask(space, "poet-push")
    space.eventually(lambda: len(keys(space)) == 2, "another key is in front")
    assert keys(space)[1] == first
    operator.wait_for_settled_writes()
    assert len(keys(space)) == 2

    space.admin.merge("Agent", space.name, "poet", {"spec": {"a2a": {"push": {"enabled": False}}}})
    space.eventually(lambda: not keys(space), "the keys are gone where push is not offered")


def test_empty_a2a_section_creates_no_push_keys(space, operator):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    revision = space.get("Agent", "poet")["status"]["revision"]
    space.admin.merge("Agent", space.name, "poet", {"spec": {"a2a": {}}})
    operator.wait_for_settled_writes()
    assert space.get("Agent", "poet")["status"]["revision"] == revision
    assert not keys(space)
