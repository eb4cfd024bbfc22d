"""Teams, sleep and the gateway's keys, on the in-memory cluster."""

import base64
import hashlib
import json

import pytest

from fleetwright_api import names
from fleetwright_kube.errors import api_error
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.manager.agent_report_handler import readable_pods

NOW = "2026-03-01T12:00:00Z"
QUIET = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}


@pytest.fixture
async def fleet(make_world, with_gateway, api):
    world = make_world(api, with_gateway)
    yield world
    await world.stop()


TWO_BUDGETS = [{"period": "Hour", "tokens": 5}, {"period": "Day", "tokens": 9}]


def used_up(**seconds):
    """Yield the reports of budgets that are used up until so many seconds after the start of the test."""
    for budget in TWO_BUDGETS:
        until = format_timestamp(parse_timestamp(NOW) + seconds[budget["period"]])
        yield {**budget, "exceeded": True, "exhausted": True, "resetsAt": until}


def put_pod(api, name):
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: name}
    metadata = {"name": f"{name}-1", "namespace": "shop", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"podIP": "10.0.0.1"}})
    return f"{name}-1"


def report(world, pod, *, budgets=(), **activity):
    """Handle a report as if the status of the pod had just been read."""
    document = {"budgets": [*budgets], "activity": {**QUIET, "startedAt": format_timestamp(world.moment), **activity}}
    return world.manager.report_handler.handle(world.manager.cache.get("Pod", "shop", pod), document)


async def running(world, api, objects, name="poet", **spec):
    api.put(objects.agent(name, **spec))
    await world.start()
    await world.settle()
    api.roll_out(name)
    pod = put_pod(api, name)
    await world.settle()
    return pod


async def asleep(world, api, objects, *, spec=(), budgets=(), **activity):
    pod = await running(world, api, objects, sleep={"afterIdle": "15m"}, **dict(spec))
    started = format_timestamp(world.moment)
    await world.later(1000)
    report(world, pod, budgets=budgets, startedAt=started, **activity)
    await world.settle()
    if replicas(api) == 0:
        generation = api.find("Deployment", "poet")["metadata"]["generation"]
        api.set_status("Deployment", "poet", {"observedGeneration": generation})
        api.remove("Pod", pod)
        await world.settle()


def replicas(api, name="poet"):
    return api.find("Deployment", name)["spec"]["replicas"]


async def test_idle_agent_sleeps_and_stays_ready(fleet, api, objects):
    await asleep(fleet, api, objects)
    status = api.find("Agent", "poet")["status"]
    assert replicas(api) == 0
    assert fleet.conditions("Agent", "poet")["Ready"][:2] == ("True", "Asleep")
    assert (status["phase"], status["sleep"]["since"]) == ("Asleep", format_timestamp(fleet.moment))


async def test_own_tasks_do_not_keep_an_agent_awake(fleet, api, objects):
    """The agent begins tasks by itself. While one runs, it stays awake; after the scrape of its counters it sleeps."""
    pod = await running(fleet, api, objects, sleep={"afterIdle": "15m"}, idlePrompt={"text": "Look.", "every": "5m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1000)
    own = format_timestamp(fleet.moment)
    report(fleet, pod, startedAt=started, lastOwnTaskActivity=own, runningTasks=1)
    await fleet.settle()
    assert replicas(api) == 1
    report(fleet, pod, startedAt=started, lastOwnTaskActivity=own, scrapedAt=format_timestamp(fleet.moment - 1))
    await fleet.settle()
    assert replicas(api) == 1
    report(fleet, pod, startedAt=started, lastOwnTaskActivity=own, scrapedAt=own)
    await fleet.settle()
    assert replicas(api) == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, "lead", id="the agent gets a parent"),
        pytest.param("lead", "other", id="another parent"),
        pytest.param("lead", None, id="the parent goes"),
    ],
)
async def test_parent_label_changes_with_one_write_and_no_pod(fleet, api, objects, before, after):
    def below(parent):
        return {"fleet": {"parent": {"name": parent}}} if parent else {}

    await running(fleet, api, objects, **below(before))
    first = api.find("Deployment", "poet")
    assert first["metadata"]["labels"].get(names.PARENT_LABEL) == before
    api.writes.clear()
    api.put(objects.agent("poet", **below(after)))
    await fleet.settle()
    found = api.find("Deployment", "poet")
    assert found["metadata"]["labels"].get(names.PARENT_LABEL) == after
    assert found["spec"] == first["spec"]
    assert names.PARENT_LABEL not in found["spec"]["template"]["metadata"]["labels"]
    assert [str(write) for write in api.writes if "Deployment" in str(write)] == ["apply Deployment poet"]


async def test_outcomes_of_a_busy_agent_cause_few_writes(fleet, api, objects):
    """An agent that may sleep is reconciled after each report."""
    pod = await running(fleet, api, objects, sleep={"afterIdle": "1h"})
    started = format_timestamp(fleet.moment)

    async def tell(active, tasks):
        activity = {**QUIET, "startedAt": started, "lastTaskActivity": active}
        document = {"activity": activity, "outcomes": [{"tasks": tasks, "succeeded": tasks}]}
        fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", pod), document)
        await fleet.settle()

    await tell(started, 0)
    api.writes.clear()
    for tasks in range(1, 31):
        await fleet.later(60)
        active = format_timestamp(fleet.moment)
        await tell(active, tasks)
    assert len(api.writes) <= 4
    for _ in range(12):  # The agent is idle, so its last outcomes appear.
        await fleet.later(60)
        await tell(active, tasks)
    assert api.find("Agent", "poet")["status"]["activity"]["outcomes"] == [{"tasks": tasks, "succeeded": tasks}]
    assert len(api.writes) <= 5


async def test_sleeping_agent_shows_its_last_outcomes(fleet, api, objects):
    pod = await running(fleet, api, objects, sleep={"afterIdle": "1m"})
    started = format_timestamp(fleet.moment)
    for tasks, pause in ((5, 1), (6, 1), (6, 300)):
        await fleet.later(pause)
        activity = {**QUIET, "startedAt": started, "lastTaskActivity": started}
        document = {"activity": activity, "outcomes": [{"tasks": tasks, "succeeded": tasks}]}
        fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", pod), document)
        await fleet.settle()
    status = api.find("Agent", "poet")["status"]
    assert "sleep" in status
    assert status["activity"]["outcomes"] == [{"tasks": 6, "succeeded": 6}]


async def test_sleeping_agent_causes_no_write(fleet, api, objects):
    await asleep(fleet, api, objects)
    writes = len(api.writes)
    fleet.manager.queue.add((names.AGENT, "shop", "poet"))
    await fleet.settle()
    await fleet.later(3600)
    assert api.writes[writes:] == []


async def test_wake_annotation_starts_the_pod_again(fleet, api, objects):
    await asleep(fleet, api, objects)
    api.edit("Agent", "poet", {"metadata": {"annotations": {names.WAKE_ANNOTATION: "now"}}})
    await fleet.settle()
    status = api.find("Agent", "poet")["status"]
    assert replicas(api) == 1
    assert (status["phase"], "sleep" in status) == ("Pending", False)


async def test_sleeping_agent_wakes_for_its_own_work(fleet, api, objects):
    await asleep(fleet, api, objects, nextWakeAt=format_timestamp(fleet.moment + 5000))
    assert replicas(api) == 0
    await fleet.later(5000)
    assert replicas(api) == 1


async def test_task_that_outlasts_the_way_to_sleep_wakes_the_agent(fleet, api, objects):
    """The agent accepts a message after its last report. Its ending pod reports the unfinished task."""
    pod = await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1000)
    report(fleet, pod, startedAt=started)
    await fleet.settle()
    assert replicas(api) == 0
    api.edit("Pod", pod, {"metadata": {"deletionTimestamp": format_timestamp(fleet.moment)}})
    await fleet.settle()
    (ending,) = readable_pods(fleet.manager.cache, fleet.manager.settings)
    fleet.moment += 1
    result = report(fleet, pod, startedAt=started)
    await fleet.settle()
    assert (ending.name, result.sleeps_in, replicas(api)) == (pod, 1.0, 0), "it is idle"
    report(fleet, pod, startedAt=started, runningTasks=1)
    await fleet.settle()
    assert replicas(api) == 1
    assert "sleep" not in api.find("Agent", "poet")["status"]
    assert list(readable_pods(fleet.manager.cache, fleet.manager.settings)) == []


async def decided(world, api, objects):
    """Stop the operator when the status shows the sleep and the pod still serves. Return the pod and its start."""
    pod = await running(world, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(world.moment)
    await world.later(1000)
    report(world, pod, startedAt=started)
    await world.until(lambda: "sleep" in api.find("Agent", "poet")["status"])
    assert replicas(api) == 1
    await world.stop()
    return pod, started


@pytest.mark.parametrize(
    ("activity", "wanted"),
    [
        pytest.param({}, (0, True), id="idle"),
        pytest.param({"runningTasks": 1}, (1, False), id="a task runs"),
        pytest.param({"lastTaskActivity": "2026-03-01T12:16:41Z"}, (1, False), id="a task has ended"),
        pytest.param(None, (1, False), id="no report yet"),
    ],
)
async def test_restart_before_the_pod_ends(make_world, with_gateway, api, objects, activity, wanted):
    first = make_world(api, with_gateway)
    pod, started = await decided(first, api, objects)
    since = api.find("Agent", "poet")["status"]["sleep"]["since"]
    second = make_world(api, with_gateway)
    second.moment = first.moment + 30
    await second.start()
    if activity is not None:
        report(second, pod, startedAt=started, **activity)
    await second.settle()
    status = api.find("Agent", "poet")["status"]
    assert (replicas(api), "sleep" in status) == wanted
    if activity is None:
        report(second, pod, startedAt=started)
        await second.settle()
        since, status = format_timestamp(second.moment), api.find("Agent", "poet")["status"]
        assert replicas(api) == 0
    await second.stop()
    assert status.get("sleep", {}).get("since", since) == since


@pytest.mark.parametrize("is_gone", [pytest.param(False, id="the pod still exists"), pytest.param(True, id="no pod")])
async def test_restart_after_the_pod_ends_keeps_the_sleep(make_world, with_gateway, api, objects, is_gone):
    first = make_world(api, with_gateway)
    pod = await running(first, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(first.moment)
    await first.later(1000)
    report(first, pod, startedAt=started)
    await first.until(lambda: replicas(api) == 0)
    await first.stop()
    slept = api.find("Agent", "poet")["status"]["sleep"]
    if is_gone:
        api.remove("Pod", pod)
    second = make_world(api, with_gateway)
    second.moment = first.moment + 30
    await second.start()
    await second.settle()
    await second.stop()
    assert (replicas(api), api.find("Agent", "poet")["status"]["sleep"]) == (0, slept)


async def test_busy_report_ends_a_sleep_that_cannot_begin(fleet, api, objects):
    """The API server refuses to scale the Deployment. A later write must not resume the decision."""
    pod = await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1000)
    api.fault = lambda _, what: api_error(403, "no") if what.endswith("Deployment poet") else None
    report(fleet, pod, startedAt=started)
    await fleet.until(lambda: fleet.conditions("Agent", "poet")["Programmed"][0] == "False")
    assert "sleep" in api.find("Agent", "poet")["status"]
    # The spec changes as well, so that the Deployment cannot be written while the agent is busy.
    api.put(objects.agent("poet", sleep={"afterIdle": "15m"}, description="changed"))
    fleet.moment += 5
    report(fleet, pod, startedAt=started, runningTasks=1)
    await fleet.until(lambda: "sleep" not in api.find("Agent", "poet")["status"])
    assert replicas(api) == 1


async def test_new_revision_wakes_the_agent(fleet, api, objects):
    await asleep(fleet, api, objects)
    api.put(objects.agent("poet", sleep={"afterIdle": "15m"}, description="changed"))
    await fleet.settle()
    assert replicas(api) == 1


async def test_sleeping_agent_keeps_budget_exceeded_over_a_restart(make_world, with_gateway, api, objects):
    first = make_world(api, with_gateway)
    full = {"period": "Month", "tokens": 5, "exceeded": True, "exhausted": True, "resetsAt": "2026-04-01T00:00:00Z"}
    await asleep(first, api, objects, spec={"budgets": [{"period": "Month", "tokens": 5}]}, budgets=[full])
    said = first.conditions("Agent", "poet")["BudgetExceeded"]
    assert said[2] == "the budget of the month is used up until 2026-04-01T00:00:00Z"
    await first.stop()
    api.writes.clear()
    second = make_world(api, with_gateway)
    await second.start()
    await second.settle()
    await second.stop()
    assert second.conditions("Agent", "poet")["BudgetExceeded"] == said
    assert api.writes == []


async def test_budget_exceeded_ends_at_the_reset_during_sleep(fleet, api, objects):
    await asleep(fleet, api, objects, spec={"budgets": TWO_BUDGETS}, budgets=[*used_up(Hour=1800, Day=40_000)])
    assert "of the hour" in fleet.conditions("Agent", "poet")["BudgetExceeded"][2]
    reset = fleet.moment + 800
    api.writes.clear()
    await fleet.later(reset - fleet.moment - 1)
    assert api.writes == []
    await fleet.later(1)
    found = fleet.conditions("Agent", "poet")["BudgetExceeded"][2]
    assert ("of the hour" in found, "of the day" in found) == (False, True)
    await fleet.later(40_000)
    assert "BudgetExceeded" not in fleet.conditions("Agent", "poet")
    assert (len(api.writes), replicas(api)) == (2, 0), "one write for each reset"


@pytest.mark.parametrize("writes", range(4))
async def test_killed_operator_still_tries_a_new_revision(make_world, with_gateway, api, objects, writes):
    """The operator is killed after each number of writes of the wake: two ConfigMaps, the Deployment and the status."""
    first = make_world(api, with_gateway)
    await asleep(first, api, objects)
    slept = api.find("Deployment", "poet")["metadata"]["annotations"]
    made = len(api.writes)
    api.fault = lambda number, _: TimeoutError("killed") if number >= made + writes else None
    api.put(objects.agent("poet", sleep={"afterIdle": "15m"}, description="changed"))
    await first.until(lambda: len(api.writes) >= made + min(writes + 1, 4))
    await first.stop()
    api.fault = lambda *_: None
    second = make_world(api, with_gateway)
    await second.start()
    await second.settle()
    await second.stop()
    assert replicas(api) == 1
    assert api.find("Deployment", "poet")["metadata"]["annotations"] != slept
    assert "sleep" not in api.find("Agent", "poet")["status"]


async def test_busy_agent_does_not_sleep(fleet, api, objects):
    await asleep(fleet, api, objects, runningTasks=1)
    assert replicas(api) == 1


@pytest.mark.parametrize(
    ("activity", "wanted"),
    [
        pytest.param({}, 301, id="idle for ten of fifteen minutes"),
        pytest.param({"runningTasks": 1}, 901, id="busy"),
        pytest.param({"startedAt": "2026-02-01T12:00:00Z"}, 15, id="idle for long enough and not scraped"),
        pytest.param(
            {"startedAt": "2026-02-01T12:00:00Z", "scrapedAt": "2026-02-02T12:00:00Z"}, None, id="idle and scraped"
        ),
        pytest.param(
            {
                "startedAt": "2026-02-01T12:00:00Z",
                "scrapedAt": "2026-02-02T12:00:00Z",
                "lastOwnTaskActivity": "2026-02-02T12:00:01Z",
            },
            15,
            id="idle, and an own task is not scraped",
        ),
    ],
)
async def test_report_tells_when_an_idle_agent_may_sleep(fleet, api, objects, activity, wanted):
    pod = await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(600)
    assert report(fleet, pod, **{"startedAt": started, **activity}).sleeps_in == wanted


async def test_sleep_without_a_gateway_is_refused(world, api, objects):
    api.put(objects.agent("poet", sleep={"afterIdle": "15m"}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, reason) == ("False", "NoGateway")
    assert "gateway.enabled" in message


async def test_gateway_keys_are_in_every_auth_secret(fleet, api, objects):
    await running(fleet, api, objects)
    data = api.find("Secret", names.agent_auth("poet"))["data"]
    document = json.loads(base64.b64decode(data["gateway.json"]))
    ring = api.find("Secret", "fleetwright-gateway-keys", namespace="fleetwright-system")
    stored = json.loads(base64.b64decode(ring["data"][names.RING_KEY]))
    assert [key["kid"] for key in document["keys"]] == [key["kid"] for key in stored["keys"]]
    assert document["audience"] == api.find("Agent", "poet")["metadata"]["uid"]
    assert not any("d" in key for key in document["keys"])


async def test_rotated_gateway_keys_reach_agents_without_a_new_revision(fleet, api, objects):
    await running(fleet, api, objects)
    template = api.find("Deployment", "poet")["spec"]["template"]
    await fleet.later(31 * 24 * 3600)
    data = api.find("Secret", names.agent_auth("poet"))["data"]
    assert len(json.loads(base64.b64decode(data["gateway.json"]))["keys"]) in {1, 2}
    ring = api.find("Secret", "fleetwright-gateway-keys", namespace="fleetwright-system")
    newest = json.loads(base64.b64decode(ring["data"][names.RING_KEY]))["keys"][0]["kid"]
    assert newest in base64.b64decode(data["gateway.json"]).decode()
    assert api.find("Deployment", "poet")["spec"]["template"] == template


async def test_team_is_suspended_and_resumed_with_its_lead(fleet, api, objects):
    below = {"fleet": {"parent": {"name": "lead"}}}
    for body in (objects.agent("lead"), objects.agent("one", **below), objects.agent("apart")):
        api.put(body)
    api.put(objects.agent("deep", fleet={"parent": {"name": "one"}}))
    await fleet.start()
    await fleet.settle()
    api.put(objects.agent("lead", suspend=True, fleet={"suspendTeam": True}))
    await fleet.settle()
    assert {name: replicas(api, name) for name in ("lead", "one", "deep", "apart")} == {
        "lead": 0, "one": 0, "deep": 0, "apart": 1,
    }  # fmt: skip
    assert fleet.conditions("Agent", "deep")["Available"][1:] == (
        "Suspended",
        "suspended with Agent 'lead': no pod runs; tasks and memory are kept",
    )
    assert api.find("Agent", "deep")["status"]["phase"] == "Suspended"
    api.put(objects.agent("lead", fleet={"suspendTeam": True}))
    await fleet.settle()
    assert {replicas(api, name) for name in ("lead", "one", "deep", "apart")} == {1}


async def test_missing_parent_is_a_condition_that_stops_nothing(fleet, api, objects):
    await running(fleet, api, objects, fleet={"parent": {"name": "lead"}})
    assert fleet.conditions("Agent", "poet")["Ready"][0] == "True"
    status, reason, message = fleet.conditions("Agent", "poet")["FleetIncomplete"]
    assert (status, reason) == ("True", "ParentNotFound")
    assert "spec.fleet.parent 'lead'" in message
    api.put(objects.agent("lead"))
    await fleet.settle()
    assert "FleetIncomplete" not in fleet.conditions("Agent", "poet")


async def test_agents_that_share_an_account_have_a_condition(fleet, api, objects):
    """Also an agent whose own account is the one that another Agent names."""
    api.put(objects.agent("clerk", serviceAccountName="poet"))
    await running(fleet, api, objects)
    for name, other in (("poet", "clerk"), ("clerk", "poet")):
        status, reason, message = fleet.conditions("Agent", name)["FleetIncomplete"]
        assert (status, reason) == ("True", "ServiceAccountShared")
        assert f"({other})" in message
    api.put(objects.agent("clerk", serviceAccountName="robot"))
    await fleet.settle()
    assert "FleetIncomplete" not in {*fleet.conditions("Agent", "poet"), *fleet.conditions("Agent", "clerk")}


async def test_caller_of_a_sleeping_peer_shares_no_account(fleet, api, objects):
    """The gateway identifies the caller by its ServiceAccount, also if the caller has no reach."""
    api.put(objects.agent("helper", sleep={"afterIdle": "15m"}))
    api.put(objects.agent("clerk", serviceAccountName="poet"))
    await running(fleet, api, objects, peers=[{"name": "helper"}])
    assert fleet.conditions("Agent", "poet")["FleetIncomplete"][1] == "ServiceAccountShared"
    assert "FleetIncomplete" not in fleet.conditions("Agent", "helper")


async def test_sleep_of_a_peer_changes_its_callers(fleet, api, objects):
    """The caller gets a new revision, whose preflight begins. It needs no reach."""

    def found():
        """Return the revisions of the caller, with True for those that call the peer through the gateway."""
        maps = [each for each in api.all("ConfigMap") if names.CONFIG_KEY in each["data"]]
        configs = [json.loads(each["data"][names.CONFIG_KEY]) for each in maps]
        callers = [config for config in configs if config["name"] == "poet"]
        assert not any("gateway" in config for config in callers)
        return {config["revision"]: config["peers"][0].get("throughGateway", False) for config in callers}

    api.put(objects.agent("helper"))
    await running(fleet, api, objects, peers=[{"name": "helper"}])
    first = api.find("Agent", "poet")["status"]["revision"]
    assert found() == {first: False}
    api.put(objects.agent("helper", sleep={"afterIdle": "15m"}))
    await fleet.settle()
    (other,) = found().keys() - {first}
    assert found()[other] is True
    api.put(objects.agent("helper"))
    await fleet.settle()
    assert found()[api.find("Agent", "poet")["status"]["revision"]] is False


async def test_shared_account_without_a_gateway_is_no_problem(world, api, objects):
    for name in ("poet", "clerk"):
        api.put(objects.agent(name, serviceAccountName="robot"))
    await world.start()
    await world.settle()
    assert "FleetIncomplete" not in world.conditions("Agent", "poet")


async def test_cycle_of_parents_names_its_agents(fleet, api, objects):
    api.put(objects.agent("one", fleet={"parent": {"name": "two"}}))
    await running(fleet, api, objects, name="two", fleet={"parent": {"name": "one"}})
    assert fleet.conditions("Agent", "two")["FleetIncomplete"][1:] == (
        "ParentCycle",
        "spec.fleet.parent forms a cycle: two → one → two. Remove the parent of one of them",
    )


async def test_missing_successor_is_a_condition_while_it_is_missing(fleet, api, objects):
    await running(fleet, api, objects, fleet={"forwardedTo": {"name": "novelist"}})
    assert fleet.conditions("Agent", "poet")["Ready"][0] == "True"
    status, reason, message = fleet.conditions("Agent", "poet")["FleetIncomplete"]
    assert (status, reason) == ("True", "SuccessorNotFound")
    assert message == (
        "spec.fleet.forwardedTo 'novelist' does not exist in this namespace, so the gateway refuses the callers; "
        "create it, or remove spec.fleet.forwardedTo"
    )
    api.put(objects.agent("novelist"))
    await fleet.settle()
    assert "FleetIncomplete" not in fleet.conditions("Agent", "poet")
    api.remove("Agent", "novelist")
    await fleet.settle()
    assert fleet.conditions("Agent", "poet")["FleetIncomplete"][1] == "SuccessorNotFound"


async def test_cycle_of_successors_is_a_condition_until_it_ends(fleet, api, objects):
    """Each agent of the cycle has the condition, also one whose own successor does not change."""
    for name, successor in (("one", "two"), ("two", "three"), ("three", "one")):
        api.put(objects.agent(name, fleet={"forwardedTo": {"name": successor}}))
    await fleet.start()
    await fleet.settle()
    assert fleet.conditions("Agent", "two")["FleetIncomplete"][1:] == (
        "SuccessorCycle",
        "spec.fleet.forwardedTo forms a cycle: two → three → one → two. Remove the field from one of them",
    )
    api.put(objects.agent("three"))
    await fleet.settle()
    assert not any("FleetIncomplete" in fleet.conditions("Agent", name) for name in ("one", "two", "three"))


async def test_reach_without_a_gateway_is_a_condition(world, api, objects):
    api.put(objects.agent("poet", fleet={"reach": "Direct"}))
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["FleetIncomplete"][1] == "NoGateway"
    assert "gateway" not in json.loads(_config(api, "poet"))


def _config(api, name):
    revision = api.find("Agent", name)["status"]["revision"]
    return api.find("ConfigMap", f"{name}-{revision}")["data"]["agent.json"]


def trust_of(api, name="poet"):
    return json.loads(base64.b64decode(api.find("Secret", names.agent_auth(name))["data"]["gateway.json"]))


async def called(world, api, objects, **poet):
    """Start the agent `poet` with the callers `desk` and `clerk`, and return their uids."""
    for caller in ("desk", "clerk"):
        api.put(objects.agent(caller, peers=[{"name": "poet"}]))
    pod = await running(world, api, objects, **poet)
    return pod, [api.find("Agent", caller)["metadata"]["uid"] for caller in ("desk", "clerk")]


async def test_withdrawn_caller_is_revoked_until_its_tokens_end(fleet, api, objects):
    pod, (desk, _) = await called(fleet, api, objects)
    assert "revoked" not in trust_of(api)
    refreshed = api.find("Pod", pod)["metadata"]["annotations"][names.REFRESH_ANNOTATION]
    api.put(objects.agent("poet", allowedCallers={"agents": [{"name": "clerk"}]}))
    await fleet.settle()
    assert trust_of(api)["revoked"] == [{"caller": desk, "notBefore": int(fleet.moment) + 30}]
    assert api.find("Pod", pod)["metadata"]["annotations"][names.REFRESH_ANNOTATION] != refreshed
    await fleet.later(380)
    await fleet.later(20)
    assert "revoked" not in trust_of(api)


@pytest.mark.parametrize(
    "withdraw",
    [
        pytest.param(lambda api, objects: api.put(objects.agent("desk")), id="the caller names it no more"),
        pytest.param(lambda api, _: api.remove("Agent", "desk"), id="the caller is deleted"),
        pytest.param(
            lambda api, objects: api.put(objects.agent("poet", allowedCallers={"agents": [{"name": "clerk"}]})),
            id="it allows the caller no more",
        ),
        pytest.param(
            lambda api, objects: api.put(
                objects.agent("poet", skills=[{"name": "nothing"}], allowedCallers={"agents": [{"name": "clerk"}]})
            ),
            id="while its spec is invalid",
        ),
    ],
)
async def test_caller_withdrawn_during_a_restart_is_revoked(api, objects, make_world, with_gateway, withdraw):
    first = make_world(api, with_gateway)
    _, (desk, clerk) = await called(first, api, objects)
    await first.stop()
    withdraw(api, objects)
    second = make_world(api, with_gateway)
    await second.start()
    await second.settle()
    assert [each["caller"] for each in trust_of(api)["revoked"]] == [desk]
    assert clerk in json.loads(
        api.find("Secret", names.agent_auth("poet"))["metadata"]["annotations"][names.DIRECT_CALLERS_ANNOTATION]
    )
    await second.stop()


async def test_caller_that_is_allowed_again_is_not_revoked(fleet, api, objects):
    await called(fleet, api, objects)
    api.put(objects.agent("desk"))
    await fleet.settle()
    assert "revoked" in trust_of(api)
    api.put(objects.agent("desk", peers=[{"name": "poet"}]))
    await fleet.settle()
    assert "revoked" not in trust_of(api)


def owners(api, name):
    return [owner["name"] for owner in api.find("Agent", name)["metadata"].get("ownerReferences", ())]


async def test_cascade_makes_the_parent_an_owner_of_its_children(fleet, api, objects):
    api.put(objects.agent("lead", fleet={"cascade": True}))
    api.put(objects.agent("child", fleet={"parent": {"name": "lead"}}))
    api.put(objects.agent("grandchild", fleet={"parent": {"name": "child"}}))
    await fleet.start()
    await fleet.settle()
    assert [owners(api, name) for name in ("lead", "child", "grandchild")] == [[], ["lead"], []]
    api.writes.clear()
    await fleet.later(3600)
    assert api.writes == []
    api.remove("Agent", "lead")
    assert not api.has("Agent", "child")
    assert api.has("Agent", "grandchild")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        pytest.param("lead", {"fleet": {"cascade": False}}, id="the parent no longer cascades"),
        pytest.param("child", {"fleet": {}}, id="the child has left the team"),
    ],
)
async def test_owner_reference_ends_with_its_cause(fleet, api, objects, name, fields):
    api.put(objects.agent("lead", fleet={"cascade": True}))
    api.put(objects.agent("child", fleet={"parent": {"name": "lead"}}))
    await fleet.start()
    await fleet.settle()
    assert owners(api, "child") == ["lead"]
    api.put(objects.agent(name, **fields))
    await fleet.settle()
    assert owners(api, "child") == []
    assert names.CASCADE_ANNOTATION not in api.find("Agent", "child")["metadata"].get("annotations", {})


async def test_owner_reference_stays_while_the_parent_is_missing(fleet, api, objects):
    api.put(objects.agent("lead", fleet={"cascade": True}))
    api.put(objects.agent("child", fleet={"parent": {"name": "lead"}}))
    await fleet.start()
    await fleet.settle()
    child = fleet.manager.cache.get("Agent", "shop", "child")
    fleet.manager.cache.drop("Agent", "shop", "lead", uid=api.find("Agent", "lead")["metadata"]["uid"])
    await fleet.manager.reconciler(child.id)
    assert owners(api, "child") == ["lead"], "the garbage collector needs the reference"


async def test_deleted_gateway_keys_are_replaced_without_overlap(fleet, api, objects):
    """After a theft, no agent may accept a token that the stolen key signs."""
    await running(fleet, api, objects)
    stolen = {key["kid"] for key in trust_of(api)["keys"]}
    fleet.moment += 1
    api.remove("Secret", "fleetwright-gateway-keys", namespace="fleetwright-system")
    await fleet.settle()
    accepted = {key["kid"] for key in trust_of(api)["keys"]}
    assert len(accepted) == 1
    assert accepted.isdisjoint(stolen)
    ring = api.find("Secret", "fleetwright-gateway-keys", namespace="fleetwright-system")
    stored = json.loads(base64.b64decode(ring["data"][names.RING_KEY]))["keys"]
    assert {key["kid"] for key in stored} == accepted


async def test_clients_are_published_to_the_gateway_as_digests(fleet, api, objects):
    await running(fleet, api, objects, auth={"clients": [{"name": "shop"}]})
    listed = json.loads(api.find("ConfigMap", names.agent_gateway_clients("poet"))["data"][names.CLIENTS_KEY])
    token = base64.b64decode(api.find("Secret", names.agent_client("poet", "shop"))["data"][names.TOKEN_KEY])
    digest = hashlib.sha256(token).hexdigest()
    assert [(entry["name"], entry["sha256"]) for entry in listed["clients"]] == [("shop", digest)]
    assert token.decode() not in json.dumps(listed)
    api.put(objects.agent("poet", auth={"clients": []}))
    await fleet.settle()
    assert names.agent_gateway_clients("poet") not in {each["metadata"]["name"] for each in api.all("ConfigMap")}
