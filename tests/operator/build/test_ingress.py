"""The ingress rules of an agent, with their reasons.

Ingress follows each change at once, even while a rollout waits. Egress waits with the rollout.
"""

from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_operator.build.agent import ingress_peers
from fleetwright_operator.build.network.ingress import ingress_status
from fleetwright_operator.settings import PodSelector, Settings

DANGLING = {"skills": [{"name": "nobody-wrote-it"}]}
REFUSED = {"network": {"egress": [{"to": {"ipBlock": {"cidr": "10.0.0.1/8"}}, "ports": [{"port": 25}]}]}}
PEERS = {"peers": [{"name": "helper"}]}


def admitted(api, name="helper"):
    """Return the agents that the policy admits by name."""
    rules = api.find("NetworkPolicy", f"{name}-ingress")["spec"]["ingress"]
    sources = [source.get("podSelector", {}) for rule in rules for source in rule["from"]]
    return [value for source in sources for part in source.get("matchExpressions", ()) for value in part["values"]]


def told(api, name="helper"):
    return {way["from"]: way["why"] for way in api.find("Agent", name)["status"]["ingress"]}


def fail_preflights(api):
    for pod in api.all("Pod"):
        container = {"name": "agent", "state": {"terminated": {"exitCode": 2, "message": "no"}}}
        api.set_status("Pod", pod["metadata"]["name"], {"phase": "Failed", "containerStatuses": [container]})


@pytest.fixture
async def serving(world, api, objects):
    api.put(objects.agent("helper"))
    api.put(objects.agent("poet", **PEERS))
    await world.start()
    await world.settle()
    api.roll_out("helper")
    await world.settle()
    assert admitted(api) == ["poet"]
    return world


@pytest.mark.parametrize(
    ("spec", "held_by"),
    [
        pytest.param(DANGLING, "ReferencesResolved", id="by a skill that is not there"),
        pytest.param(REFUSED, "Accepted", id="by a spec that is refused"),
        pytest.param({"instructions": "Other."}, "Programmed", id="by a revision that cannot start"),
    ],
)
async def test_blocked_agent_still_updates_its_callers(serving, api, objects, spec, held_by):
    ways_out = api.find("NetworkPolicy", "helper")["spec"]
    api.put(objects.agent("helper", **spec))
    await serving.settle()
    fail_preflights(api)
    await serving.settle()
    assert serving.conditions("Agent", "helper")[held_by][0] == "False"

    api.put(objects.agent("late", **PEERS))
    await serving.settle()
    assert admitted(api) == ["late", "poet"]
    assert serving.conditions("Agent", "late")["Programmed"][0] == "True"
    api.put(objects.agent("poet"))
    await serving.settle()
    assert admitted(api) == ["late"]
    assert told(api)["Agent late of namespace shop, port 7870"].startswith("names this agent as a peer")
    assert api.find("NetworkPolicy", "helper")["spec"] == ways_out
    api.writes.clear()
    api.edit("Agent", "helper", {"metadata": {"labels": {"looked": "again"}}})
    await serving.settle()
    assert api.writes == []


async def test_invalid_ingress_range_keeps_the_previous_callers(serving, api, objects):
    before = api.find("NetworkPolicy", "helper-ingress")["spec"]
    api.put(objects.agent("helper", network={"ingress": [{"from": {"ipBlock": {"cidr": "10.0.0.1/8"}}}]}))
    await serving.settle()
    assert serving.conditions("Agent", "helper")["Accepted"][1] == "InvalidRange"
    assert api.find("NetworkPolicy", "helper-ingress")["spec"] == before


async def test_combined_policy_is_split_without_an_open_interval(world, api, objects):
    """During an upgrade neither direction is unrestricted at any time."""
    await world.start()
    api.put(objects.agent())
    await world.settle()
    both = api.find("NetworkPolicy", "poet")
    entering = api.find("NetworkPolicy", "poet-ingress")["spec"]["ingress"]
    spec = {**both["spec"], "policyTypes": ["Ingress", "Egress"], "ingress": entering}
    await world.stop()
    api.remove("NetworkPolicy", "poet-ingress")
    metadata = {**both["metadata"], "annotations": {names.HASH_ANNOTATION: "of before"}}
    api.put({**both, "metadata": metadata, "spec": spec}, manager="fleetwright")
    api.writes.clear()
    await world.start()
    await world.settle()
    assert [write for write in api.writes if "Policy" in write] == [
        "apply NetworkPolicy poet-ingress",
        "apply NetworkPolicy poet",
    ]
    assert api.find("NetworkPolicy", "poet")["spec"]["policyTypes"] == ["Egress"]
    assert "ingress" not in api.find("NetworkPolicy", "poet")["spec"]


INVITED = {
    "from": "pods fleetwright.dev/may-call=poet of the same namespace, port 7870",
    "why": "allowed by that label",
}
SAME = "names this agent as a peer, from the same namespace"
LISTED = {"allowedCallers": {"agents": [{"name": "a"}], "namespaces": {"from": "All"}}}
ENTRANCES = [
    pytest.param(
        {}, [("shop", "b"), ("shop", "a")], [("Agents a, b of namespace shop", SAME)], id="callers by default"
    ),
    pytest.param(
        LISTED,
        [("shop", "a"), ("shop", "b"), ("press", "a")],
        [
            (
                "Agent a of namespace press",
                "names this agent as a peer, and spec.allowedCallers.namespaces has from: All",
            ),
            ("Agent a of namespace shop", "names this agent as a peer, and spec.allowedCallers.agents lists it"),
            (
                "Agent b of namespace shop",
                "names this agent as a peer, and spec.allowedCallers.namespaces has from: All",
            ),
        ],
        id="callers by consent, each by the part that lets it in",
    ),
    pytest.param(
        {},
        [("shop", f"a{number:02}") for number in range(22)],
        [(f"Agents {', '.join(f'a{number:02}' for number in range(20))} and 2 more of namespace shop", SAME)],
        id="many callers, of which the last are counted",
    ),
    pytest.param(
        {"network": {"ingress": [{"from": {"ipBlock": {"cidr": "10.0.0.0/8"}}}]}},
        [],
        [("10.0.0.0/8", "spec.network.ingress")],
        id="what the spec adds",
    ),
]


@pytest.mark.parametrize(("spec", "callers", "wanted"), ENTRANCES)
def test_ingress_status_lists_every_peer_with_its_reason(objects, spec, callers, wanted):
    ways = ingress_peers(objects.agent_view(**spec), callers=callers, settings=Settings())
    listed = [{"from": f"{of}, port 7870", "why": why} for of, why in wanted]
    assert ingress_status(ways) == [INVITED, *listed]


def test_ingress_status_lists_clients_of_the_ops_port(objects):
    monitoring = PodSelector(namespace="monitoring", labels={"app": "prometheus"})
    settings = replace(Settings(), monitoring=monitoring, operator=PodSelector(namespace="system"))
    told = ingress_status(ingress_peers(objects.agent_view(), callers=[], settings=settings))
    assert told[1:] == [
        {"from": "pods app=prometheus of namespace monitoring, port 7871", "why": "scrapes its metrics"},
        {"from": "all pods of namespace system, port 7871", "why": "the operator, which reads its status"},
    ]


def test_ingress_status_truncates_a_long_list_of_callers(objects):
    agent = objects.agent_view(allowedCallers={"namespaces": {"from": "All"}})
    callers = [(f"team-{number:03}", "poet") for number in range(200)]
    told = ingress_status(ingress_peers(agent, callers=callers, settings=Settings()))
    assert len(told) == 61
    assert told[-1] == {"from": "141 more", "why": "the network policy lists all"}


async def test_ingress_status_reports_that_no_policy_is_managed(serving, api, objects):
    api.put(objects.agent("helper", network={"policy": "None"}))
    await serving.settle()
    container = {"name": "agent", "state": {"terminated": {"exitCode": 0}}}
    for pod in api.all("Pod"):
        assert "Agent poet of namespace shop, port 7870" in told(api), "the serving pod still has its policy"
        api.set_status("Pod", pod["metadata"]["name"], {"phase": "Succeeded", "containerStatuses": [container]})
    await serving.settle()
    assert told(api) == {"wherever other policies allow": "spec.network.policy is None"}
