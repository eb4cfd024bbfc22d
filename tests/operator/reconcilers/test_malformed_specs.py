"""Specs that do not match their CRD, as an older CRD may have stored them: one condition, and no write of a child."""

import pytest

MODEL = {"name": "m", "baseURL": "https://models.example.com/v1"}
MALFORMED = [
    pytest.param("Agent", [], "spec must be an object and is a list; correct it", id="spec"),
    pytest.param(
        "Agent",
        {"instructions": "Help.", "model": MODEL, "peers": [{}], "memory": "much"},
        "spec.peers[0].name is missing; set it; spec.memory must be an object and is a string; correct it",
        id="two fields",
    ),
    pytest.param("Skill", {}, "spec.source is missing; set it", id="no source"),
    pytest.param(
        "Skill", {"source": {}}, "spec.source needs exactly one of inline, configMap, git and image", id="empty source"
    ),
    pytest.param("McpServer", {"remote": {}}, "spec.remote.url is missing; set it", id="no address"),
    pytest.param(
        "McpServer",
        {"workload": {"image": "a/b:1", "port": "http"}},
        "spec.workload.port must be an integer and is a string; correct it",
        id="port",
    ),
]


def stored(objects, kind, spec):
    return {**objects.custom(kind, "poet", {}), "spec": spec}


@pytest.mark.parametrize(("kind", "spec", "message"), MALFORMED)
async def test_malformed_spec_is_a_condition_and_no_child(world, api, objects, kind, spec, message):
    api.put(stored(objects, kind, spec))
    await world.start()
    await world.settle()
    assert world.conditions(kind, "poet")["Accepted"] == ("False", "Malformed", message)
    assert [write for write in api.writes if write.endswith(" poet")] == [f"status {kind} poet"]


async def test_malformed_spec_keeps_running_children_until_corrected(world, api, objects):
    api.put(objects.agent(auth={"clients": [{"name": "web"}]}))
    await world.start()
    await world.settle()
    before = {name: body for name, body in api.snapshot().items() if not name.startswith("Agent/")}
    api.put(objects.agent(auth={"clients": "web"}))
    await world.settle()
    assert world.conditions("Agent", "poet")["Accepted"][1] == "Malformed"
    assert {name: body for name, body in api.snapshot().items() if not name.startswith("Agent/")} == before
    api.put(objects.agent(auth={"clients": [{"name": "web"}, {"name": "ops"}]}))
    await world.settle()
    assert world.conditions("Agent", "poet")["Accepted"][0] == "True"
    assert api.has("Secret", "poet-client-ops")


async def test_malformed_callee_blocks_only_its_caller(world, api, objects):
    api.put(objects.agent("helper", allowedCallers=["poet"]))
    api.put(objects.agent(peers=[{"name": "helper"}]))
    api.put(objects.agent("other"))
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "helper")["Accepted"][1] == "Malformed"
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "PeerNotAllowed"
    assert world.conditions("Agent", "other")["Programmed"][0] == "True"


async def test_unknown_enum_value_read_by_the_runtime_is_a_condition(world, api, objects):
    api.put(objects.agent(compaction={"mode": "Sometimes"}))
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["Accepted"] == (
        "False",
        "UnknownWord",
        "spec.compaction.mode has 'Sometimes'; use one of Enforce, Observe, Off",
    )
    assert not api.has("Deployment", "poet")
