"""Sleeping agents whose reconcile is blocked, on the in-memory cluster: they wake with the revision that they had."""

import pytest
from tests.support.operator.approvals import ASK

from fleetwright_api import names
from fleetwright_kube.errors import api_error
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.reconcilers.agent import AgentReconciler

PERSON = "alice@example.com"
QUIET = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}
SPEC = {"sleep": {"afterIdle": "15m"}, "skills": [{"name": "verse"}], "approvals": {"tools": ["load_skill"]}}
WAKES_AFTER = 5000
AGENT = (names.AGENT, "shop", "poet")


@pytest.fixture
async def fleet(make_world, with_gateway, api):
    world = make_world(api, with_gateway)
    yield world
    await world.stop()


@pytest.fixture
def sleeps(fleet, api, objects):
    """Return a function that starts the operator with one agent and puts the agent to sleep."""

    async def begin(**spec):
        api.put(objects.skill("verse"))
        api.put(objects.agent("poet", **{**SPEC, **spec}))
        await fleet.start()
        await fleet.settle()
        if api.has("Service", "poet-egress"):  # The API server gives the Service of the egress proxy an address.
            service = api.find("Service", "poet-egress")
            api.put({**service, "spec": {**service["spec"], "clusterIP": "10.96.0.9"}})
            await fleet.settle()
        await reports_idle(fleet, api, nextWakeAt=format_timestamp(fleet.moment + 1000 + WAKES_AFTER))
        assert (replicas(api), status(api)["phase"]) == (0, "Asleep")
        api.set_status("Deployment", "poet", {"observedGeneration": generation(api)})
        api.remove("Pod", pod_name(api))
        await fleet.settle()

    return begin


async def reports_idle(world, api, **activity):
    """Roll out the agent, and report 1000 seconds later that it has been idle since. The questions are listed."""
    serves(api)
    await world.settle()
    started = format_timestamp(world.moment)
    await world.later(1000)
    agent = world.manager.cache.get(*AGENT)
    asked = {**ASK, "ask": "a-1", "createdAt": started, "expiresAt": format_timestamp(world.moment + 90_000)}
    world.manager.approval_lists.handle(agent, {"version": "1", "open": [asked]})
    document = {"activity": {**QUIET, "startedAt": started, **activity}}
    world.manager.report_handler.handle(world.manager.cache.get("Pod", "shop", pod_name(api)), document)
    await world.settle()


def serves(api):
    """Report what the Deployment controller and a kubelet report of a pod that is ready."""
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    metadata = {"name": f"poet-{generation(api)}", "namespace": "shop", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": "10.0.0.1"}})
    api.roll_out("poet")


def pod_name(api):
    """Return the name of the newest pod. A woken agent has a new one, to which the last report does not belong."""
    return max(
        each["metadata"]["name"] for each in api.all("Pod") if each["metadata"]["name"] not in api.probes("poet")
    )


def replicas(api, name="poet"):
    return api.find("Deployment", name)["spec"]["replicas"]


def template(api):
    return api.find("Deployment", "poet")["spec"]["template"]


def generation(api):
    return api.find("Deployment", "poet")["metadata"]["generation"]


def status(api):
    return api.find("Agent", "poet")["status"]


async def reconcile(world):
    world.manager.queue.add(AGENT)
    await world.settle()


@pytest.fixture
def results(monkeypatch):
    """Return a list that receives the result of each reconcile of the agent."""
    original, found = AgentReconciler.__call__, []

    async def recorded(self, entry):
        found.append(await original(self, entry))
        return found[-1]

    monkeypatch.setattr(AgentReconciler, "__call__", recorded)
    return found


@pytest.fixture
def passes(fleet, results):
    """Return a function that counts the reconciles of the next ten seconds, after one that it causes."""

    async def count():
        results.clear()
        await reconcile(fleet)
        for _ in range(10):
            await fleet.later(1)
            await fleet.settle()
        return len(results)

    return count


def lose_skill(api, objects):
    api.remove("Skill", "verse")


def break_spec(api, objects, **spec):
    """Put a spec that the operator refuses, because the agent names itself as a peer."""
    api.put(objects.agent("poet", **{**SPEC, "peers": [{"name": "poet"}], **spec}))


BLOCKED = [
    pytest.param(lose_skill, "SkillNotFound", id="a Skill is missing"),
    pytest.param(break_spec, "PeerIsSelf", id="the spec is invalid"),
]


async def annotate(world, api):
    api.edit("Agent", "poet", {"metadata": {"annotations": {names.WAKE_ANNOTATION: "now"}}})
    await world.settle()


async def decide(world, api):
    name = names.approval("poet", "a-1")
    api.edit(names.APPROVAL, name, {"spec": {"decision": "Approved", "decidedBy": PERSON}})
    # The operator repeats the delivery while no pod is ready, so the queue does not become empty.
    await world.until(lambda: api.find(names.APPROVAL, name)["status"]["phase"] != "Pending")
    await world.until(lambda: world.manager.queue.depth == 0)


async def wait(world, api):
    await world.later(WAKES_AFTER)


CAUSES = [
    pytest.param(annotate, id="the wake annotation"),
    pytest.param(decide, id="a decision of an Approval"),
    pytest.param(wait, id="its own work is due"),
]


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize(("block", "reason"), BLOCKED)
async def test_blocked_agent_wakes_with_its_old_revision(fleet, api, objects, sleeps, block, reason, cause):
    await sleeps()
    old, slept = template(api), status(api)["sleep"]
    block(api, objects)
    await fleet.settle()
    assert (replicas(api), status(api)["sleep"]) == (0, slept), "nothing wakes it yet"
    assert fleet.conditions("Agent", "poet")["Ready"][:2] == ("False", reason)
    assert not any("keeps serving" in said for _, _, said in fleet.conditions("Agent", "poet").values())
    api.writes.clear()
    await cause(fleet, api)
    await fleet.until(lambda: replicas(api) == 1 and "sleep" not in status(api))
    assert template(api) == old
    assert [write for write in api.writes if "Deployment" in write] == ["merge Deployment poet"]
    assert len([write for write in api.writes if write == "status Agent poet"]) <= 2
    serves(api)
    serving = f"revision {status(api)['revision']} keeps serving"
    await fleet.until(lambda: serving in fleet.conditions("Agent", "poet")["Available"][2])


@pytest.mark.parametrize(("block", "reason"), BLOCKED)
async def test_blocked_agent_settles_without_writes(fleet, api, objects, sleeps, passes, block, reason):
    await sleeps()
    block(api, objects)
    await fleet.settle()
    api.writes.clear()
    for _ in range(3):
        await reconcile(fleet)
    assert api.writes == []
    await annotate(fleet, api)
    api.writes.clear()
    for _ in range(3):
        await reconcile(fleet)
    assert (api.writes, replicas(api)) == ([], 1)
    assert await passes() == 1


async def test_woken_agent_stays_awake_while_it_is_blocked(fleet, api, objects, sleeps):
    await sleeps()
    lose_skill(api, objects)
    await fleet.settle()
    await annotate(fleet, api)
    await reports_idle(fleet, api)
    assert (replicas(api), "sleep" in status(api)) == (1, False)


@pytest.mark.parametrize("serves_already", [True, False])
async def test_repaired_reference_gives_a_woken_agent_its_revision(fleet, api, objects, sleeps, serves_already):
    await sleeps()
    before = status(api)["revision"]
    lose_skill(api, objects)
    await fleet.settle()
    await annotate(fleet, api)
    if serves_already:
        serves(api)
        await fleet.settle()
    again = objects.skill("verse", "Four lines.")
    api.put({**again, "metadata": {**again["metadata"], "uid": "another"}})
    if serves_already:
        await fleet.until(lambda: api.probes("poet") != [])
        api.end_pod(api.probes("poet")[0])
    await fleet.settle()
    after = status(api)["revision"]
    assert after != before
    assert (replicas(api), template(api)["metadata"]["annotations"][names.REVISION_ANNOTATION]) == (1, after)
    await reports_idle(fleet, api)
    assert (replicas(api), status(api)["phase"]) == (0, "Asleep")


async def test_repaired_reference_with_the_same_revision_keeps_the_pod(fleet, api, objects, sleeps):
    await sleeps()
    old = template(api)
    break_spec(api, objects)
    await fleet.settle()
    await annotate(fleet, api)
    serves(api)
    await fleet.settle()
    api.put(objects.agent("poet", **SPEC))
    await fleet.settle()
    assert (replicas(api), template(api), api.probes("poet")) == (1, old, [])
    assert fleet.conditions("Agent", "poet")["Ready"][0] == "True"
    await reports_idle(fleet, api)
    assert (replicas(api), status(api)["phase"]) == (0, "Asleep"), "the patch does not hide the next change of replicas"


async def test_sleep_that_a_block_interrupts_ends(make_world, with_gateway, fleet, api, objects):
    """The status shows the sleep and the pod still serves when the operator stops and the Skill is deleted."""
    api.put(objects.skill("verse"))
    api.put(objects.agent("poet", **SPEC))
    await fleet.start()
    await fleet.settle()

    def slept():
        return "sleep" in status(api)

    api.fault = lambda _, what: TimeoutError("killed") if what == "apply Deployment poet" and slept() else None
    serves(api)
    await fleet.settle()
    started = format_timestamp(fleet.moment)
    await fleet.later(1000)
    agent = fleet.manager.cache.get(*AGENT)
    fleet.manager.approval_lists.handle(agent, {"version": "1", "open": []})
    document = {"activity": {**QUIET, "startedAt": started}}
    fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", pod_name(api)), document)
    await fleet.until(slept)
    await fleet.stop()
    api.fault = lambda *_: None
    assert replicas(api) == 1
    lose_skill(api, objects)
    second = make_world(api, with_gateway)
    await second.start()
    await second.settle()
    await second.stop()
    assert (replicas(api), slept()) == (1, False)


@pytest.mark.parametrize("block", [lose_skill, break_spec])
async def test_suspended_agent_does_not_wake_while_it_is_blocked(fleet, api, objects, sleeps, passes, block):
    await sleeps()
    block(api, objects)
    await fleet.settle()
    api.edit("Agent", "poet", {"spec": {"suspend": True}})
    await fleet.settle()
    await annotate(fleet, api)
    await wait(fleet, api)
    assert replicas(api) == 0
    assert await passes() == 1
    assert replicas(api) == 0
    api.edit("Agent", "poet", {"spec": {"suspend": False}})
    await fleet.settle()
    assert (replicas(api), "sleep" in status(api)) == (1, False), "the requests count again"


async def test_decision_does_not_wake_a_suspended_blocked_agent(fleet, api, objects, sleeps):
    await sleeps()
    lose_skill(api, objects)
    api.edit("Agent", "poet", {"spec": {"suspend": True}})
    await fleet.settle()
    await decide(fleet, api)
    assert replicas(api) == 0


async def test_agent_suspended_before_the_block_does_not_wake(fleet, api, objects, sleeps):
    await sleeps()
    api.put(objects.agent("poet", **SPEC, suspend=True))
    await fleet.settle()
    lose_skill(api, objects)
    await fleet.settle()
    await annotate(fleet, api)
    assert (replicas(api), "sleep" in status(api)) == (0, False)


async def test_blocked_agent_without_a_deployment_creates_none(fleet, api, objects, sleeps, passes):
    await sleeps()
    lose_skill(api, objects)
    api.remove("Deployment", "poet")
    await fleet.settle()
    await annotate(fleet, api)
    await wait(fleet, api)
    assert await passes() == 1
    assert not api.has("Deployment", "poet")
    api.put(objects.skill("verse"))
    await fleet.settle()
    assert replicas(api) == 1


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (422, "Rejected")])
async def test_refused_wake_is_reported_and_tried_again(fleet, api, objects, sleeps, code, reason):
    await sleeps()
    lose_skill(api, objects)
    await fleet.settle()
    api.fault = lambda _, what: api_error(code, "no") if what == "merge Deployment poet" else None
    api.edit("Agent", "poet", {"metadata": {"annotations": {names.WAKE_ANNOTATION: "now"}}})
    await fleet.until(lambda: fleet.conditions("Agent", "poet")["Programmed"][1] == reason)
    assert (replicas(api), "sleep" in status(api)) == (0, True)
    api.fault = lambda *_: None
    await fleet.until(lambda: replicas(api) == 1)
    await fleet.settle()
    assert "sleep" not in status(api)


async def test_changed_deployment_is_read_again_before_the_wake(fleet, api, objects, sleeps):
    """A controller has changed the Deployment, and its event is late."""
    await sleeps()
    lose_skill(api, objects)
    await fleet.settle()
    conflicts = [api_error(409, "the object has been modified")]
    api.fault = lambda _, what: conflicts.pop() if what == "merge Deployment poet" and conflicts else None
    await annotate(fleet, api)
    await fleet.until(lambda: replicas(api) == 1)
    await fleet.settle()
    assert "sleep" not in status(api)


async def test_refused_apply_schedules_only_its_retry(fleet, api, objects, sleeps, results):
    """The reconcile is not blocked, own work is due, and the API server refuses the write that would start the pod."""
    await sleeps()
    api.fault = lambda _, what: api_error(403, "no") if what == "apply Deployment poet" else None
    fleet.moment += WAKES_AFTER + 1
    results.clear()
    fleet.manager.queue.add(AGENT)
    await fleet.until(lambda: fleet.conditions("Agent", "poet")["Programmed"][0] == "False")
    await fleet.until(lambda: results != [])
    assert all(each.refused for each in results)
    assert all(each.requeue_after is None or each.requeue_after > 86_400 for each in results), "the rotation of a token"
    assert (replicas(api), "sleep" in status(api)) == (0, True)
    api.fault = lambda *_: None
    await fleet.until(lambda: replicas(api) == 1)
    await fleet.settle()
    assert "sleep" not in status(api)


async def test_workspace_starts_with_its_blocked_agent(fleet, api, objects, sleeps):
    hosts = {"egress": [{"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]}]}
    await sleeps(workspace={"image": "debian", "network": hosts})
    deployments = ("poet", "poet-workspace", "poet-egress")
    assert [replicas(api, name) for name in deployments] == [0, 0, 0]
    old = [api.find("Deployment", name)["spec"]["template"] for name in deployments]
    lose_skill(api, objects)
    await fleet.settle()
    api.writes.clear()
    await annotate(fleet, api)
    assert [replicas(api, name) for name in deployments] == [1, 1, 1]
    assert [api.find("Deployment", name)["spec"]["template"] for name in deployments] == old
    assert [write for write in api.writes if "Deployment" in write][-1] == "merge Deployment poet"
