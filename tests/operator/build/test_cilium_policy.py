"""External hosts are allowed by name if the installation has Cilium, and never by both name and range."""

from dataclasses import replace

import pytest

from fleetwright_kube.errors import ForbiddenError
from fleetwright_operator.settings import Cilium

INSIDE = {"name": "m", "baseURL": "http://10.1.2.3/v1"}


@pytest.fixture
async def start(api, make_world, settings):
    """Start an operator with this value of network.cilium. An earlier one stops."""
    running = []

    async def one(cilium, *, comes_to_rest=True):
        for world in running:
            await world.stop()
        world = make_world(api, replace(settings, cilium=cilium))
        running.append(world)
        await world.start()
        if comes_to_rest:
            await world.settle()
        return world

    yield one
    for world in running:
        await world.stop()


def plain_rules(api, name):
    spec = api.find("NetworkPolicy", name)["spec"]
    assert "Egress" in spec["policyTypes"], "egress without a rule is denied"
    return spec.get("egress", ())


def ranges(api, name="poet"):
    rules = plain_rules(api, name)
    return [peer["ipBlock"]["cidr"] for rule in rules for peer in rule["to"] if "ipBlock" in peer]


def names_of(api, name="poet"):
    rules = api.find("CiliumNetworkPolicy", name)["spec"]["egress"]
    return [selector["matchName"] for rule in rules for selector in rule.get("toFQDNs", ())]


def ports_of_dns(api, name="poet"):
    return [port["port"] for rule in plain_rules(api, name) for port in rule["ports"] if port["port"] == 53]


async def test_cilium_policy_opens_a_name_and_reports_it(api, objects, start):
    api.put(objects.agent())
    await start(Cilium.ON)
    assert names_of(api) == ["models.example.com"]
    assert ranges(api) == []
    assert ports_of_dns(api) == [], "DNS lookups go only to the proxy of Cilium"
    ways = {way["to"]: way["why"] for way in api.find("Agent", "poet")["status"]["egress"]}
    assert ways["models.example.com, port 443, by name (Cilium)"] == "model m"
    assert "DNS in kube-system, port 53" in ways


async def test_cilium_policy_is_applied_before_the_range_is_removed(api, objects, start):
    api.put(objects.agent())
    await start(Cilium.OFF)
    before = len(api.writes)
    await start(Cilium.ON)
    written = [write for write in api.writes[before:] if "NetworkPolicy" in write]
    assert written == ["apply CiliumNetworkPolicy poet", "apply NetworkPolicy poet"]


async def test_cilium_policy_is_deleted_after_the_range_is_restored(api, objects, start):
    api.put(objects.agent())
    await start(Cilium.ON)
    before = len(api.writes)
    world = await start(Cilium.REMOVE)
    written = [write for write in api.writes[before:] if "NetworkPolicy" in write]
    assert written == ["apply NetworkPolicy poet", "delete CiliumNetworkPolicy poet"]
    assert ranges(api) == ["0.0.0.0/0", "2000::/3"]
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"


async def test_cilium_policy_is_deleted_without_external_names(api, objects, start):
    api.put(objects.agent())
    world = await start(Cilium.ON)
    api.put(objects.agent(model=INSIDE))
    await world.settle()
    assert not api.has("CiliumNetworkPolicy", "poet")
    assert ports_of_dns(api) == [53, 53]


async def test_network_policy_none_creates_no_cilium_policy(api, objects, start):
    api.put(objects.agent(network={"policy": "None"}))
    await start(Cilium.ON)
    assert not api.has("CiliumNetworkPolicy", "poet")
    assert api.all("NetworkPolicy") == []


async def test_cilium_policy_is_restored_after_edit_or_deletion(api, objects, start):
    api.put(objects.agent())
    world = await start(Cilium.ON)
    wanted = api.find("CiliumNetworkPolicy", "poet")["spec"]
    api.edit("CiliumNetworkPolicy", "poet", {"spec": {"egress": [{"toEntities": ["all"]}]}})
    await world.settle()
    assert api.find("CiliumNetworkPolicy", "poet")["spec"] == wanted
    api.remove("CiliumNetworkPolicy", "poet")
    await world.settle()
    assert api.find("CiliumNetworkPolicy", "poet")["spec"] == wanted
    settled = list(api.writes)
    await start(Cilium.ON)
    assert api.writes == settled, "a restart causes no write"


async def test_cilium_api_missing_is_a_condition_and_keeps_ranges(api, objects, start):
    """Without the Cilium API, a condition reports it and running agents keep their ranges."""
    api.unserved = {"CiliumNetworkPolicy"}
    api.put(objects.agent())
    await start(Cilium.OFF)
    api.put(objects.agent("inner", model=INSIDE))
    world = await start(Cilium.ON)
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "NotServed")
    assert message.startswith(
        "CiliumNetworkPolicy 'poet' needs cilium.io/v2, which is not served: install Cilium, or set "
    )
    assert ranges(api) == ["0.0.0.0/0", "2000::/3"]
    assert world.conditions("Agent", "inner")["Programmed"][0] == "True", "an agent without names needs no Cilium"
    api.put(objects.agent("late"))
    await world.settle()
    assert not api.has("Deployment", "late"), "a new agent does not run with a wider policy"
    api.unserved = set()
    await world.later(60)
    assert world.conditions("Agent", "late")["Programmed"][0] == "True"


async def test_cilium_policy_forbidden_is_reported_with_its_name(api, objects, start):
    api.fault = lambda _, what: ForbiddenError("no such right") if what.startswith("apply Cilium") else None
    api.put(objects.agent())
    world = await start(Cilium.ON, comes_to_rest=False)
    wanted = ("False", "Forbidden", "CiliumNetworkPolicy 'poet' was forbidden by the API server: no such right")
    await world.until(lambda: world.conditions("Agent", "poet").get("Programmed") == wanted)
    assert not api.has("NetworkPolicy", "poet")


def denied(api):
    (rule,) = api.find("CiliumNetworkPolicy", "poet")["spec"]["egressDeny"]
    return {block["cidr"]: block.get("except", []) for block in rule["toCIDRSet"]}


def opening(*cidrs):
    return {"egress": [{"to": {"ipBlock": {"cidr": cidr}}, "ports": [{"port": 80}]} for cidr in cidrs]}


ON_PURPOSE = [
    pytest.param([], [], id="nobody named it"),
    pytest.param(["169.254.170.2/32"], ["169.254.170.2/32"], id="one address of it is named"),
    pytest.param(["169.254.0.0/16"], None, id="all of it is named"),
    pytest.param(["0.0.0.0/0"], [], id="a wide range holds it"),
]


@pytest.mark.parametrize(("cidrs", "excepted"), ON_PURPOSE)
async def test_cilium_policy_denies_metadata_unless_declared(api, objects, start, cidrs, excepted):
    api.put(objects.agent(network=opening(*cidrs)))
    await start(Cilium.ON)
    assert denied(api).get("169.254.0.0/16") == excepted
    assert denied(api)["fd00:ec2::254/128"] == []


async def test_probes_use_the_standard_network_policy_only(api, objects, start):
    api.put(objects.custom("McpServer", "weather", {"remote": {"url": "https://weather.example.com/mcp"}}))
    await start(Cilium.ON)
    (probe,) = api.probes("weather")
    assert ranges(api, probe) == ["0.0.0.0/0", "2000::/3"]
    assert api.all("CiliumNetworkPolicy") == []
