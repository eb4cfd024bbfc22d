"""Events about children that another client has changed or deleted, and about volumes that are gone."""

import pytest


def told(api) -> list[tuple[str, str, str, int]]:
    """Return object, reason, message and count of the Events about repairs."""
    found = [event for event in api.all("Event") if event["reason"] in {"Reverted", "Recreated", "VolumeLost"}]
    return [(each["involvedObject"]["name"], each["reason"], each["message"], each["count"]) for each in found]


@pytest.fixture
async def agent(world, api, objects):
    """The api with an agent that serves, and its workspace."""
    api.put(objects.agent(workspace={"image": "docker.io/library/debian:12"}))
    await world.start()
    world.tell_events()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    assert told(api) == []
    return api


REPAIRS = [
    pytest.param(
        lambda api: api.edit("Deployment", "poet", {"spec": {"replicas": 3}}),
        ("poet", "Reverted", "another client changed Deployment 'poet', and the operator reverted the change."),
        id="a changed Deployment",
    ),
    pytest.param(
        lambda api: api.remove("Service", "poet"),
        ("poet", "Recreated", "another client deleted Service 'poet', and the operator created it again"),
        id="a deleted Service",
    ),
    pytest.param(
        lambda api: api.remove("PersistentVolumeClaim", "poet-memory"),
        ("poet", "VolumeLost", "PersistentVolumeClaim 'poet-memory' was gone, and the operator created an empty one"),
        id="the memory",
    ),
    pytest.param(
        lambda api: api.remove("PersistentVolumeClaim", "poet-workspace"),
        ("poet", "VolumeLost", "PersistentVolumeClaim 'poet-workspace' was gone"),
        id="the files of the workspace",
    ),
]


@pytest.mark.parametrize(("change", "wanted"), REPAIRS)
async def test_repair_has_an_event(agent, world, change, wanted):
    change(agent)
    await world.settle()
    await world.until(lambda: told(agent) != [])
    ((name, reason, message, count),) = told(agent)
    assert (name, reason, message.startswith(wanted[2]), count) == (*wanted[:2], True, 1), message


async def test_changes_of_the_spec_are_no_repairs(agent, world, objects):
    agent.put(objects.agent(network={"managed": False}))
    await world.settle()
    agent.put(objects.agent(workspace={"image": "docker.io/library/debian:12"}, resources={"limits": {"cpu": "2"}}))
    await world.settle()
    agent.edit("Agent", "poet", {"spec": {"suspend": True}})
    await world.settle()
    assert told(agent) == []


async def test_new_agent_of_the_same_name_is_no_repair(agent, world, objects):
    agent.remove("Agent", "poet")
    await world.settle()
    for body in [body for kind in ("Service", "Deployment", "ConfigMap", "Secret") for body in agent.all(kind)]:
        agent.remove(body["kind"], body["metadata"]["name"], namespace=body["metadata"]["namespace"])
    another = objects.agent()
    agent.put({**another, "metadata": {**another["metadata"], "uid": "another"}})
    await world.settle()
    assert agent.find("Service", "poet")
    assert told(agent) == []


async def test_equal_repairs_are_told_once_a_minute(agent, world):
    for seconds in (0, 59, 2):
        world.seconds += seconds
        agent.edit("Deployment", "poet", {"spec": {"replicas": 3}})
        await world.settle()
    await world.until(lambda: [count for *_, count in told(agent)] == [2])
