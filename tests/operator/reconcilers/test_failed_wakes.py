"""Woken agents whose pod cannot start, on the in-memory cluster: they stay awake, and serve when the cause ends."""

import pytest

from fleetwright_api import names
from fleetwright_kube.timestamps import format_timestamp

SLEEP = {"sleep": {"afterIdle": "15m"}}
QUIET = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example.com/agent:2"'}}
QUOTA = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "poet-2" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=9, limited: pods=9',
}
NO_NODE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 node(s) had volume node affinity conflict",
}


@pytest.fixture
async def fleet(make_world, with_gateway, api, objects):
    """The operator, with one agent that sleeps."""
    world = make_world(api, with_gateway)
    api.put(objects.agent("poet", **SLEEP))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    put_pod(api, "poet-1", {})
    await world.settle()
    started = format_timestamp(world.moment)
    await world.later(1000)
    report(world, "poet-1", started)
    await world.settle()
    api.remove("Pod", "poet-1")
    await world.settle()
    assert (replicas(api), api.find("Agent", "poet")["status"]["phase"]) == (0, "Asleep")
    yield world
    await world.stop()


def put_pod(api, name, status):
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    metadata = {"name": name, "namespace": "shop", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": "10.0.0.1", **status}})


def report(world, pod, started):
    """Handle a report of an idle agent as if the status of the pod had just been read."""
    document = {"activity": {**QUIET, "startedAt": started}}
    world.manager.report_handler.handle(world.manager.cache.get("Pod", "shop", pod), document)


def replicas(api):
    return api.find("Deployment", "poet")["spec"]["replicas"]


async def wake(world, api, request="now"):
    api.edit("Agent", "poet", {"metadata": {"annotations": {names.WAKE_ANNOTATION: request}}})
    await world.settle()


def fail(api, *, pod, conditions):
    """Report a Deployment without an available pod. Args: `pod` is the status of its pod; None if it has none."""
    generation = api.find("Deployment", "poet")["metadata"]["generation"]
    api.set_status("Deployment", "poet", {"observedGeneration": generation, "conditions": conditions})
    if pod is not None:
        put_pod(api, "poet-2", pod)


CAUSES = [
    pytest.param(
        {"pod": {"containerStatuses": [{"name": "agent", "image": "registry.example.com/agent:2", "state": PULL}]}},
        ("ImagePull", "registry.example.com/agent:2"),
        id="the image is missing",
    ),
    pytest.param({"conditions": [QUOTA]}, ("Quota", "exceeded quota"), id="the quota is used up"),
    pytest.param({"pod": {"conditions": [NO_NODE]}}, ("Unschedulable", "no node can run"), id="the node is gone"),
]


@pytest.mark.parametrize(("failure", "wanted"), CAUSES)
async def test_failed_wake_names_its_cause_and_is_kept(fleet, api, failure, wanted):
    await wake(fleet, api)
    fail(api, **{"pod": None, "conditions": [], **failure})
    await fleet.settle()
    for pause in (0, 60, 24 * 3600):
        await fleet.later(pause)
        fleet.manager.queue.add((names.AGENT, "shop", "poet"))
        await fleet.settle()
        status = api.find("Agent", "poet")["status"]
        ready, reason, message = fleet.conditions("Agent", "poet")["Ready"]
        assert (ready, reason, wanted[1] in message) == ("False", wanted[0], True)
        assert (replicas(api), status["phase"], "sleep" in status) == (1, "Failed", False)
    await serves_again(fleet, api)


@pytest.mark.parametrize(("failure", "wanted"), CAUSES)
async def test_failed_wake_survives_a_restart(fleet, api, make_world, with_gateway, failure, wanted):
    await wake(fleet, api)
    fail(api, **{"pod": None, "conditions": [], **failure})
    await fleet.settle()
    await fleet.stop()
    second = make_world(api, with_gateway)
    second.moment = fleet.moment + 3600
    await second.start()
    await second.settle()
    status = api.find("Agent", "poet")["status"]
    assert (replicas(api), "sleep" in status) == (1, False)
    assert second.conditions("Agent", "poet")["Ready"][1] == wanted[0]
    await serves_again(second, api)
    await second.stop()


async def test_wake_that_waits_for_a_lost_node_says_so(fleet, api):
    """The pod of the woken agent runs on a node that is lost, so it does not end."""
    await wake(fleet, api)
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    fail(api, pod={"conditions": [evicted]}, conditions=[])
    api.edit("Pod", "poet-2", {"metadata": {"deletionTimestamp": format_timestamp(fleet.moment)}})
    await fleet.settle()
    ready, reason, message = fleet.conditions("Agent", "poet")["Ready"]
    assert (ready, reason, replicas(api)) == ("False", "RollingOut", 1)
    assert "Pod 'poet-2' is evicted from its node and has not ended yet" in message
    assert "node.kubernetes.io/out-of-service" in message
    await serves_again(fleet, api)


async def serves_again(world, api):
    """End the cause, and check that the agent serves. It sleeps again only after a new pause."""
    if api.has("Pod", "poet-2"):
        api.remove("Pod", "poet-2")
    put_pod(api, "poet-3", {})
    api.roll_out("poet")
    started = format_timestamp(world.moment)
    report(world, "poet-3", started)
    await world.settle()
    status = api.find("Agent", "poet")["status"]
    assert world.conditions("Agent", "poet")["Ready"][:2] == ("True", "Ready")
    assert (replicas(api), status["phase"], "sleep" in status) == (1, "Running", False)
    await world.later(1000)
    report(world, "poet-3", started)
    await world.settle()
    assert replicas(api) == 0


async def test_second_wake_during_a_failed_one_changes_nothing(fleet, api):
    await wake(fleet, api)
    fail(api, pod=None, conditions=[QUOTA])
    await fleet.settle()
    api.writes.clear()
    await wake(fleet, api, "again")
    assert (replicas(api), api.writes) == (1, [])
