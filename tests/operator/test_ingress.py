"""Who may call follows at once, whatever else of an agent is held; where it may go stays what serves."""

import pytest

from fleetwright_operator import names

DANGLING = {"skills": [{"name": "nobody-wrote-it"}]}
REFUSED = {"network": {"egress": [{"to": {"ipBlock": {"cidr": "10.0.0.1/8"}}, "ports": [{"port": 25}]}]}}
PEERS = {"peers": [{"name": "helper"}]}


def admitted(api, name="helper"):
    """The agents that the network lets in by name."""
    rules = api.find("NetworkPolicy", f"{name}-ingress")["spec"]["ingress"]
    sources = [source.get("podSelector", {}) for rule in rules for source in rule["from"]]
    return [value for source in sources for part in source.get("matchExpressions", ()) for value in part["values"]]


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
async def test_callers_of_a_held_agent_come_and_go(serving, api, objects, spec, held_by):
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
    assert api.find("NetworkPolicy", "helper")["spec"] == ways_out
    api.writes.clear()
    api.edit("Agent", "helper", {"metadata": {"labels": {"looked": "again"}}})
    await serving.settle()
    assert api.writes == []


async def test_a_range_of_callers_that_cannot_be_read_leaves_those_who_may_come_in(serving, api, objects):
    before = api.find("NetworkPolicy", "helper-ingress")["spec"]
    api.put(objects.agent("helper", network={"ingress": [{"from": {"ipBlock": {"cidr": "10.0.0.1/8"}}}]}))
    await serving.settle()
    assert serving.conditions("Agent", "helper")["Accepted"][1] == "InvalidRange"
    assert api.find("NetworkPolicy", "helper-ingress")["spec"] == before


async def test_the_one_policy_of_before_is_narrowed_once_the_other_is_there(world, api, objects):
    """An upgrade: at no moment is either direction open."""
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
