"""Two installations serve one namespace: each object has one manager, and the other installation reports it."""

from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_operator.manager.agent_report_handler import readable_pods

OWN, OTHER = "fleetwright-system/fleetwright-operator", "second/fleetwright"


@pytest.fixture
async def two(api, objects, make_world, settings):
    """Two running installations, of which the first manages all objects."""
    api.put(objects.agent())
    api.put(objects.skill())
    api.put(objects.server())
    first = make_world(api)
    await first.start()
    await first.settle()
    second = make_world(api, replace(settings, lease_namespace="second", lease_name="fleetwright", drain_seconds=99))
    second.tell_events()
    seen = len(api.writes)
    await second.start()
    yield first, second, seen
    await first.stop()
    await second.stop()


def count_shared_writes(api, *, since):
    """Return the writes to the namespace of the objects. The second installation has keys of its own."""
    own = ("Secret fleetwright-operator-card-keys", "ConfigMap fleetwright-operator-card-keys")
    return [write for write in api.writes[since:] if not write.endswith(own) and "Event" not in write]


def read_events(api):
    return [event for event in api.all("Event") if event["reason"] == "ManagedElsewhere"]


async def test_second_installation_writes_nothing_to_objects_of_the_first(two, api):
    _, second, seen = two
    await second.settle()
    assert count_shared_writes(api, since=seen) == []
    for kind, name in ((names.AGENT, "poet"), (names.SKILL, "haiku"), (names.MCP_SERVER, "tools")):
        assert api.find(kind, name)["status"]["installation"] == OWN


async def test_second_installation_names_both_once(two, api, caplog):
    _, second, _ = two
    await second.until(lambda: read_events(api))
    await second.settle()
    (event,) = read_events(api)
    assert OWN in event["message"]
    assert OTHER in event["message"]
    assert [(each.other, each.own) for each in caplog.get_records("setup") if hasattr(each, "other")] == [(OWN, OTHER)]
    registry = second.manager.metrics.registry
    counted = {
        kind: registry.get_sample_value("fleetwright_objects_managed_elsewhere", {"kind": kind, "installation": OWN})
        for kind in (names.AGENT, names.SKILL, names.MCP_SERVER)
    }
    assert set(counted.values()) == {1.0}


async def test_annotation_moves_an_object_to_the_other_installation(two, api):
    first, second, _ = two
    await second.settle()
    api.edit(names.AGENT, "poet", {"metadata": {"annotations": {names.INSTALLATION_ANNOTATION: OTHER}}})
    await second.until(lambda: api.find(names.AGENT, "poet")["status"]["installation"] == OTHER)
    await first.settle()
    await second.settle()
    container = api.find("Deployment", "poet")["spec"]["template"]["spec"]
    assert container["terminationGracePeriodSeconds"] > 99, "the second installation has written it"

    seen = len(api.writes)
    api.edit(names.AGENT, "poet", {"spec": {"instructions": "Sing."}})
    await second.until(lambda: api.find(names.AGENT, "poet")["status"]["observedGeneration"] == 2)
    await first.settle()
    assert "Agent poet" in " ".join(api.writes[seen:])
    assert api.find(names.AGENT, "poet")["status"]["installation"] == OTHER


async def test_object_without_a_manager_belongs_to_the_installation_that_sees_it_first(api, objects, make_world):
    api.put(objects.agent())
    world = make_world(api)
    await world.start()
    await world.settle()
    assert api.find(names.AGENT, "poet")["status"]["installation"] == OWN
    await world.stop()


async def test_pods_of_another_installation_are_not_read(two, api):
    first, second, _ = two
    await second.settle()
    labels = {names.AGENT_LABEL: "poet", names.MANAGED_BY: names.FIELD_MANAGER}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "poet-1", "namespace": "shop", "labels": labels}})

    def read_pods(world):
        return [pod.name for pod in readable_pods(world.manager.cache, world.manager.settings)]

    assert read_pods(first) == ["poet-1"]
    assert read_pods(second) == []
    api.set_status("Pod", "poet-1", {"phase": "Failed", "reason": "Evicted"})
    assert read_pods(first) == [], "its address may belong to another pod"
