"""The operator's part in push notifications: egress to receivers, the capability on the card, and encryption keys."""

import base64
import ipaddress
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.auth_files import Tokens
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.build.network.addresses import ServiceInfo
from fleetwright_operator.build.network.egress import derived_egress_rules
from fleetwright_operator.credentials.push_keys import PushKeys, read_keys, renew_keys

NEWEST, FORMER = "n" * 43, "f" * 43
RECEIVER = {("shop", "receiver"): ServiceInfo(selector={"app": "receiver"}, ports={8080: "http"})}


def pushing(**push):
    return {"a2a": {"push": push}}


def parts(agent):
    tokens = Tokens(push=PushKeys((NEWEST, FORMER), "a-wish")) if offers_push(agent.spec) else Tokens()
    return AgentParts(agent=agent, tokens=tokens, services=RECEIVER)


def test_push_manifests_with_allowed_hosts_match_golden(objects, settings, golden):
    agent = objects.agent_view(
        **pushing(
            allowedHosts=["hooks.example.com", "receiver:8080", "[2001:db8::7]:8443", "10.0.0.7"],
            allowedCIDRs=["10.20.0.0/16"],
        )
    )
    golden("agent-push", agent_children(parts(agent), settings).manifests)


def test_push_manifests_with_any_public_host_match_golden(objects, settings, golden):
    ranges = (ipaddress.ip_network("9.9.9.0/24"),)
    without = replace(settings, denied_ranges=ranges, stated_ranges=ranges)
    golden("agent-push-anywhere", agent_children(parts(objects.agent_view(**pushing())), without).manifests)


ROUTES = [
    pytest.param({}, ["everywhere outside the cluster, ports 80, 443"], id="nobody is named"),
    pytest.param(
        {"allowedHosts": ["hooks.example.com"]}, ["hooks.example.com:443, outside the cluster"], id="a host outside"
    ),
    pytest.param({"allowedHosts": ["receiver:8080"]}, ["pods of Service shop/receiver, port http"], id="a Service"),
    pytest.param({"allowedHosts": ["10.0.0.7:9000"]}, ["10.0.0.7:9000"], id="an address"),
    pytest.param({"allowedCIDRs": ["10.20.0.0/16"]}, ["10.20.0.0/16, every TCP port"], id="a range"),
    pytest.param({"enabled": False}, [], id="switched off"),
    pytest.param({"enabled": False, "allowedHosts": ["hooks.example.com"]}, [], id="switched off with its lists kept"),
]


@pytest.mark.parametrize(("push", "wanted"), ROUTES)
def test_push_egress_opens_declared_destinations(objects, settings, push, wanted):
    egress_rules = derived_egress_rules(
        objects.agent_view(**pushing(**push)), servers={}, services=RECEIVER, settings=settings
    )
    assert [route.to for route in egress_rules if route.why == "push notifications"] == wanted


def test_push_range_excludes_denied_ranges(objects, settings):
    denied = replace(settings, denied_ranges=(ipaddress.ip_network("10.20.9.0/24"),))
    egress_rules = derived_egress_rules(
        objects.agent_view(**pushing(allowedCIDRs=["10.20.0.0/16"])), servers={}, services={}, settings=denied
    )
    assert egress_rules[-1].peers == ({"ipBlock": {"cidr": "10.20.0.0/16", "except": ["10.20.9.0/24"]}},)


def test_push_disabled_does_not_change_the_revision(objects, settings):
    without = agent_children(parts(objects.agent_view()), settings)
    for agent in (objects.agent_view(**pushing(enabled=False)), objects.agent_view(a2a={})):
        assert agent_children(parts(agent), settings).rendered.revision == without.rendered.revision
    assert (
        agent_children(parts(objects.agent_view(**pushing())), settings).rendered.revision != without.rendered.revision
    )


INVALID = [
    pytest.param({"allowedHosts": ["127.0.0.1:9000"]}, "InvalidAddress", "allowedHosts[0]", id="loopback"),
    pytest.param({"allowedHosts": ["a.example.com", "169.254.169.254"]}, "InvalidAddress", "[1]", id="metadata"),
    pytest.param({"allowedHosts": ["127.1"]}, "InvalidAddress", "ends in a number", id="an odd spelling"),
    pytest.param({"allowedCIDRs": ["10.0.0.1/8"]}, "InvalidRange", "allowedCIDRs[0] '10.0.0.1/8'", id="no range"),
    pytest.param({"enabled": False, "allowedCIDRs": ["x"]}, "InvalidRange", "[0] 'x'", id="also while it is off"),
]


@pytest.mark.parametrize(("push", "reason", "says"), INVALID)
async def test_push_invalid_host_is_a_condition(world, api, objects, push, reason, says):
    api.put(objects.agent(**pushing(**push)))
    await world.start()
    await world.settle()
    status, found, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, found) == ("False", reason)
    assert says in message
    assert message.startswith("spec.a2a.push.")


async def test_push_missing_service_is_a_condition_until_created(world, api, objects):
    api.put(objects.agent(**pushing(allowedHosts=["receiver:8080"])))
    await world.start()
    await world.settle()
    _, reason, message = world.conditions("Agent", "poet")["ReferencesResolved"]
    assert (reason, "push notifications names receiver" in message) == ("ServiceNotFound", True)


def _keys(api):
    return base64.b64decode(api.find("Secret", "poet-push")["data"]["keys"]).decode().split()


async def test_push_keys_exist_while_enabled_and_rotate_on_request(world, api, objects):
    api.put(objects.agent(**pushing()))
    await world.start()
    await world.settle()
    (first,) = _keys(api)
    assert len(base64.urlsafe_b64decode(first + "=")) == 32
    assert api.has("Deployment", "poet")
    api.edit("Secret", "poet-push", {"metadata": {"annotations": {names.ROTATE_ANNOTATION: "leaked"}}})
    await world.settle()
    second, kept = _keys(api)
    assert (kept, second != first) == (first, True)
    api.writes.clear()
    await world.settle()
    assert (_keys(api), api.writes) == ([second, first], [])
    api.edit("Agent", "poet", {"spec": {"a2a": {"push": {"enabled": False}}}})
    await world.settle()
    assert not api.has("Secret", "poet-push")


async def test_push_keys_are_replaced_if_damaged_and_pod_is_annotated(world, api, objects):
    api.put(objects.agent(**pushing()))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    labels = api.find("Deployment", "poet")["spec"]["template"]["metadata"]["labels"]
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": labels}})
    await world.settle()
    before = api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION]
    api.edit("Secret", "poet-push", {"data": {"keys": base64.b64encode(b"short").decode()}})
    await world.settle()
    (key,) = _keys(api)
    assert len(key) == 43
    assert api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION] != before


KEYS = [
    pytest.param("", "", PushKeys(("minted",)), id="where there is none, one is made"),
    pytest.param(f"{NEWEST}\n{FORMER}\n", "", PushKeys((NEWEST, FORMER)), id="what is there stays"),
    pytest.param(f"{NEWEST}\nshort\n", "", PushKeys((NEWEST,)), id="what is damaged is left out"),
    pytest.param(NEWEST, "wish", PushKeys(("minted", NEWEST), "wish"), id="a wish is granted"),
]


@pytest.mark.parametrize(("text", "asked", "wanted"), KEYS)
def test_renew_keys_adds_a_key_on_request(text, asked, wanted):
    keys = renew_keys(read_keys(text, asked=""), asked=asked, mint=lambda: "minted")
    assert keys == wanted
    assert renew_keys(replace(keys, texts=(NEWEST,)), asked=asked, mint=lambda: "more").texts == (NEWEST,)


def test_renew_keys_drops_the_oldest_key():
    keys = PushKeys((NEWEST,))
    for wish in range(20):
        keys = renew_keys(keys, asked=str(wish), mint=lambda: FORMER)
    assert len(keys.texts) == 8
    assert NEWEST not in keys.texts
    assert NEWEST not in repr(keys)
