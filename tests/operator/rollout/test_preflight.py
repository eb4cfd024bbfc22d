"""A revision that cannot start never replaces a serving one. A revision that can start does."""

import pytest

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.errors import api_error
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.preflight import preflight
from fleetwright_operator.build.probe import probe_manifests
from fleetwright_operator.rollout.preflight_result import (
    PreflightFailed,
    PreflightInterrupted,
    PreflightPassed,
    PreflightPending,
    evaluate_pod,
)

NOW = "2026-03-01T12:00:00Z"


def preflights(api):
    return [pod for pod in api.all("Pod") if pod["metadata"]["labels"].get(names.COMPONENT) == names.PROBE]


def ended(api, pod, code, message=""):
    container = {"name": "agent", "state": {"terminated": {"exitCode": code, "message": message}}}
    phase = "Failed" if code else "Succeeded"
    name = pod["metadata"]["name"]
    api.set_status("Pod", name, {"phase": phase, "containerStatuses": [container]})


def starts(api):
    """Return the number of preflights that were started."""
    return len([what for what in api.writes if what.startswith("apply Pod poet-probe")])


def passes(world):
    counted = (sample for metric in world.manager.metrics.reconciles.collect() for sample in metric.samples)
    return sum(sample.value for sample in counted if sample.name.endswith("_total"))


def revision_of_deployment(api, name="poet"):
    template = api.find("Deployment", name)["spec"]["template"]
    return template["metadata"]["annotations"][names.REVISION_ANNOTATION]


@pytest.fixture
async def serving(world, api, objects):
    """Return the agent's first revision, which serves."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    assert preflights(api) == [], "the first revision needs no preflight"
    api.roll_out("poet")
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"
    return revision_of_deployment(api)


async def test_preflight_success_rolls_out_the_revision(world, api, objects, serving):
    policy = api.find("NetworkPolicy", "poet")["spec"]
    api.put(objects.agent(instructions="Other.", model={"name": "m", "baseURL": "https://other.example.com/v1"}))
    await world.settle()
    (pod,) = preflights(api)
    assert pod["spec"]["containers"][0]["args"] == ["probe", "agent"]
    assert revision_of_deployment(api) == serving
    assert api.find("NetworkPolicy", "poet")["spec"] == policy, "the serving pod keeps its egress"
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "Preflight")
    assert message.endswith(f"revision {serving} keeps serving")

    ended(api, pod, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving
    assert preflights(api) == []
    api.roll_out("poet")
    await world.settle()
    assert not [policy for policy in api.all("NetworkPolicy") if "probe" in policy["metadata"]["name"]]
    told = api.find("Agent", "poet")["status"]
    assert (told["revision"], told["previousRevision"]) == (revision_of_deployment(api), serving)


async def test_preflight_failure_holds_until_the_old_spec_returns(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 2, "fleetwright-agent: skill 'haiku' is not mounted\n")
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "PreflightFailed")
    assert "cannot start: skill 'haiku' is not mounted" in message
    assert revision_of_deployment(api) == serving

    api.put(objects.agent())
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"
    assert preflights(api) == []


async def test_preflight_of_another_spec_replaces_the_pending_one(world, api, objects, serving):
    api.put(objects.agent(instructions="Second."))
    await world.settle()
    (second,) = preflights(api)
    api.put(objects.agent(instructions="Third."))
    await world.settle()
    (third,) = preflights(api)
    assert third["metadata"]["name"] != second["metadata"]["name"]
    ended(api, third, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_reports_why_its_pod_does_not_run(world, api, objects, serving):
    api.put(objects.agent(image="registry.example.com/missing:1"))
    await world.settle()
    (pod,) = preflights(api)
    assert "command" not in pod["spec"]["containers"][0]
    waiting = {"name": "agent", "image": "missing", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Pending", "containerStatuses": [waiting]})
    await world.settle()
    assert "cannot be pulled" in world.conditions("Agent", "poet")["Programmed"][2]
    assert revision_of_deployment(api) == serving


async def test_preflight_of_a_custom_image_passes_when_it_is_ready(world, api, objects, serving):
    api.put(objects.agent(image="registry.example.com/other:1"))
    await world.settle()
    (pod,) = preflights(api)
    ready = {"name": "agent", "ready": True, "state": {"running": {}}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Running", "containerStatuses": [ready]})
    await world.settle()
    container = api.find("Deployment", "poet")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "registry.example.com/other:1"


async def test_preflight_whose_pod_is_refused_is_tried_again_with_backoff(world, api, objects, serving):
    """A quota admits one pod. The policy of the preflight is written before its pod, and deleted after a refusal."""
    api.fault = lambda number, what: api_error(403, "exceeded quota: pods=1") if "apply Pod" in what else None
    api.writes.clear()
    api.put(objects.agent(instructions="Other."))
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][1] == "Forbidden")
    counts = []
    for _ in range(5):
        await world.later(59)
        counts.append(sum("poet-probe" in what for what in api.writes))
        api.writes.clear()
    assert counts[0] <= 5
    assert counts[-1] <= 2, counts
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "Forbidden")
    assert "exceeded quota: pods=1" in message
    assert "; it is tried again at 2026-" in message
    assert revision_of_deployment(api) == serving

    api.fault = lambda number, what: None
    await world.later(300)
    (pod,) = preflights(api)
    ended(api, pod, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_changed_revision_is_tried_at_once_after_a_refusal(world, api, objects, serving):
    api.fault = lambda number, what: api_error(403, "exceeded quota: pods=1") if "apply Pod" in what else None
    api.put(objects.agent(instructions="Other."))
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][1] == "Forbidden")
    api.fault = lambda number, what: None
    api.put(objects.agent(instructions="Another."))
    await world.settle()
    assert len(preflights(api)) == 1


STUBBORN = [
    pytest.param({"exitCode": 1, "reason": "Error"}, "exit code 1 (Error): no such file", id="it gave up"),
    pytest.param({"exitCode": 127, "reason": "Error"}, "exit code 127", id="there is no such program"),
    pytest.param({"exitCode": 137, "reason": "OOMKilled"}, "exit code 137 (OOMKilled)", id="it took too much memory"),
    pytest.param({"exitCode": 2, "reason": "Error"}, "cannot start: no such file", id="it looked and refused"),
]


@pytest.mark.parametrize(("how", "says"), STUBBORN)
async def test_preflight_program_that_exits_is_not_restarted(world, api, objects, serving, how, says):
    api.put(objects.agent(image="registry.example.com/other:1"))
    await world.settle()
    (pod,) = preflights(api)
    before = len(api.writes), passes(world)
    terminated = {"message": "no such file\n", **how}
    status = {"phase": "Failed", "containerStatuses": [{"name": "agent", "state": {"terminated": terminated}}]}
    api.set_status("Pod", pod["metadata"]["name"], status)
    await world.settle()
    await world.later(3600)
    told = world.conditions("Agent", "poet")["Programmed"]
    assert told[:2] == ("False", "PreflightFailed")
    assert says in told[2]
    assert told[2].endswith(f"revision {serving} keeps serving")
    assert [each["metadata"]["uid"] for each in preflights(api)] == [pod["metadata"]["uid"]]
    writes = [what for what in api.writes[before[0] :] if "Secret" not in what]
    assert sorted(writes) == [f"delete NetworkPolicy {pod['metadata']['name']}", "status Agent poet"]
    assert passes(world) - before[1] < 10
    assert revision_of_deployment(api) == serving


async def test_preflight_is_repeated_after_a_secret_change(world, api, objects, serving):
    model = {"name": "m", "baseURL": "https://models.example.com/v1", "apiKeySecretRef": {"name": "key"}}
    api.put(objects.secret())
    api.put(objects.agent(model=model))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 1)
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "PreflightFailed"
    api.put(objects.secret(**{"api-key": "eQ=="}))
    await world.settle()
    (again,) = preflights(api)
    assert again["metadata"]["name"] != pod["metadata"]["name"]
    assert world.conditions("Agent", "poet")["Programmed"][1] == "Preflight"


def evicted(api):
    (pod,) = preflights(api)
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Failed", "reason": "Evicted", "message": "disk"})


def late(api):
    (pod,) = preflights(api)
    waiting = {"name": "agent", "image": "missing", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Pending", "containerStatuses": [waiting]})
    return lambda: api.set_status("Pod", pod["metadata"]["name"], {"phase": "Failed", "reason": "DeadlineExceeded"})


async def test_preflight_lost_by_the_cluster_is_retried_with_backoff(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    first = world.moment
    for pause in (10, 20, 40, 80):
        count, since = starts(api), world.moment
        evicted(api)
        await world.settle()
        status, reason, message = world.conditions("Agent", "poet")["Programmed"]
        assert (status, reason) == ("False", "Preflight")
        assert f"failed, Evicted: disk; it is tried again at {format_timestamp(since + pause)}" in message
        await world.later(pause - 1)
        assert starts(api) == count, "the operator waits"
        await world.later(1)
        assert starts(api) == count + 1
    assert world.moment - first == 150
    (pod,) = preflights(api)
    ended(api, pod, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_retries_a_temporary_git_failure(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    says = "fleetwright-agent: https://git.example.com/skills.git cannot be reached\n"
    terminated = {"exitCode": 75, "reason": "Error", "message": says}
    fetching = {"name": "skill-haiku", "state": {"terminated": terminated}}
    api.set_status("Pod", pod["metadata"]["name"], {"phase": "Failed", "initContainerStatuses": [fetching]})
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "Preflight")
    assert "https://git.example.com/skills.git cannot be reached; it is tried again at " in message
    await world.later(10)
    (again,) = preflights(api)
    ended(api, again, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_timeout_reports_its_cause(world, api, objects, serving):
    api.put(objects.agent(image="registry.example.com/missing:1"))
    await world.settle()
    end = late(api)
    await world.settle()
    end()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert (status, reason) == ("False", "PreflightFailed")
    assert "did not end within 120 seconds: image 'missing' cannot be pulled" in message
    await world.later(10)
    assert world.conditions("Agent", "poet")["Programmed"][1] == "Preflight"


async def test_preflight_is_repeated_if_its_pod_is_deleted(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 1)
    await world.settle()
    api.remove("Pod", pod["metadata"]["name"])
    await world.settle()
    assert "its pod was deleted" in world.conditions("Agent", "poet")["Programmed"][2]
    await world.later(10)
    (again,) = preflights(api)
    ended(api, again, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_is_resumed_by_another_operator(world, make_world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    await world.stop()
    (pod,) = preflights(api)
    ended(api, pod, 0)
    second = make_world(api)
    await second.start()
    await second.settle()
    assert revision_of_deployment(api) != serving
    assert preflights(api) == []
    await second.stop()


async def test_preflight_is_skipped_if_no_pod_serves(world, api, objects, serving):
    api.set_status("Deployment", "poet", {"observedGeneration": 1})
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    assert preflights(api) == []
    assert revision_of_deployment(api) != serving


def falls_over(api):
    """Make the serving pod unavailable, as after a failed readiness probe or a lost node."""
    api.set_status("Deployment", "poet", {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1})


async def test_preflight_refusal_holds_if_serving_pod_is_unavailable(world, make_world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 2, "fleetwright-agent: skill 'haiku' is not mounted\n")
    await world.settle()
    falls_over(api)
    await world.settle()
    told = world.conditions("Agent", "poet")["Programmed"]
    assert told[:2] == ("False", "PreflightFailed")
    assert told[2].endswith("cannot start: skill 'haiku' is not mounted")
    assert revision_of_deployment(api) == serving

    await world.stop()
    second = make_world(api)
    await second.start()
    await second.settle()
    assert revision_of_deployment(api) == serving, "the ended pod informs the next operator"

    api.put(objects.agent(instructions="Mended."))
    await second.settle()
    assert revision_of_deployment(api) != serving, "no preflight of it ran, and no pod serves"
    assert preflights(api) == []
    await second.stop()


@pytest.mark.parametrize("restarted", [False, True], ids=["the same operator", "another operator"])
async def test_preflight_refusal_holds_while_a_reference_is_missing(
    world, make_world, api, objects, serving, restarted
):
    api.put(objects.agent("helper"))
    api.put(objects.agent(instructions="Other.", peers=[{"name": "helper"}]))
    await world.settle()
    (pod,) = preflights(api)
    ended(api, pod, 2, "fleetwright-agent: there is no such plugin\n")
    await world.settle()
    api.remove("Agent", "helper")
    await world.settle()
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "PeerNotFound"
    falls_over(api)
    await world.settle()
    if restarted:
        await world.stop()
        world = make_world(api)
        await world.start()
    api.put(objects.agent("helper"))
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "PreflightFailed"
    assert revision_of_deployment(api) == serving

    api.put(objects.agent(instructions="Mended."))
    await world.settle()
    assert revision_of_deployment(api) != serving
    assert preflights(api) == []
    if restarted:
        await world.stop()


async def test_preflight_restarts_when_a_missing_reference_returns(world, api, objects, serving):
    api.put(objects.agent("helper"))
    api.put(objects.agent(instructions="Other.", peers=[{"name": "helper"}]))
    await world.settle()
    (pod,) = preflights(api)
    api.remove("Agent", "helper")
    await world.settle()
    assert preflights(api) == []
    api.put(objects.agent("helper"))
    await world.settle()
    (again,) = preflights(api)
    assert again["metadata"]["uid"] != pod["metadata"]["uid"]
    assert revision_of_deployment(api) == serving


async def test_preflight_finishes_if_the_serving_pod_fails_meanwhile(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    (pod,) = preflights(api)
    falls_over(api)
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][1] == "Preflight"
    assert [each["metadata"]["uid"] for each in preflights(api)] == [pod["metadata"]["uid"]]
    assert revision_of_deployment(api) == serving
    ended(api, pod, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_is_retried_also_if_the_serving_pod_fails(world, api, objects, serving):
    api.put(objects.agent(instructions="Other."))
    await world.settle()
    evicted(api)
    await world.settle()
    assert preflights(api) == []
    falls_over(api)
    await world.settle()
    assert revision_of_deployment(api) == serving
    await world.later(10)
    (again,) = preflights(api)
    assert revision_of_deployment(api) == serving
    ended(api, again, 0)
    await world.settle()
    assert revision_of_deployment(api) != serving


async def test_preflight_egress_is_open_if_network_policy_is_none(world, api, objects):
    network = {"network": {"policy": "None"}}
    api.put(objects.agent(**network))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    api.put(objects.agent(instructions="Other.", **network))
    await world.settle()
    (pod,) = preflights(api)
    policy = api.find("NetworkPolicy", pod["metadata"]["name"])["spec"]
    assert (policy["policyTypes"], policy.get("egress")) == (["Ingress"], None), "ingress is denied"
    own = policy["podSelector"]["matchLabels"]
    assert own.items() <= pod["metadata"]["labels"].items()
    assert own["fleetwright.dev/probed-agent"] == "poet"
    assert "fleetwright.dev/agent" not in pod["metadata"]["labels"], "policies for the agent do not select it"
    ended(api, pod, 0)
    await world.settle()
    assert preflights(api) == []
    assert api.has("NetworkPolicy", pod["metadata"]["name"]), "the policy stays until the new pod serves"
    api.roll_out("poet")
    await world.settle()
    assert not api.has("NetworkPolicy", pod["metadata"]["name"])


async def test_preflight_is_skipped_for_scaling_and_suspending(world, api, objects, serving):
    api.put(objects.agent(suspend=True))
    await world.settle()
    assert preflights(api) == []
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 0


def container(code, reason="Error", **more):
    return {"name": "agent", "state": {"terminated": {"exitCode": code, "reason": reason, "message": "ah", **more}}}


BESIDE = {"name": "mesh", "state": {"running": {}}, "ready": True}
VERDICTS = [
    pytest.param({}, PreflightPending(), id="nothing is known of a young pod"),
    pytest.param({"phase": "Succeeded"}, PreflightPassed(), id="it ended well"),
    pytest.param({"containerStatuses": [{"name": "agent", "ready": True}]}, PreflightPassed(), id="it serves"),
    pytest.param({"containerStatuses": [BESIDE]}, PreflightPending(), id="what was put beside it serves"),
    pytest.param(
        {"phase": "Running", "containerStatuses": [BESIDE, container(0)]},
        PreflightPassed(),
        id="only what is beside it runs on",
    ),
    pytest.param({"containerStatuses": [container(2)]}, PreflightFailed("ah"), id="it ended before its pod did"),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [{**container(3), "name": "fetch"}]},
        PreflightFailed("the container ended with exit code 3 (Error): ah"),
        id="what goes before it ended badly",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [{**container(2), "name": "fetch"}]},
        PreflightFailed("ah"),
        id="what goes before it refused",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [{**container(75), "name": "fetch"}]},
        PreflightInterrupted("ah"),
        id="what goes before it could not be had just now",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [container(75)]},
        PreflightFailed("the container ended with exit code 75 (Error): ah"),
        id="the agent itself has no such excuse",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [{**container(2), "name": "mesh"}, container(1)]},
        PreflightFailed("the container ended with exit code 1 (Error): ah"),
        id="what is beside it was ended after it",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "Evicted", "containerStatuses": [container(137)]},
        PreflightInterrupted("its pod failed, Evicted"),
        id="the node put it out",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "Terminated", "containerStatuses": [container(0)]},
        PreflightInterrupted("its pod failed, Terminated"),
        id="its node was shut down and it took leave politely",
    ),
    pytest.param(
        {"phase": "Failed", "containerStatuses": [container(137, "ContainerStatusUnknown")]},
        PreflightInterrupted("its node lost track of the container"),
        id="nobody knows how it ended",
    ),
    pytest.param({"phase": "Failed"}, PreflightInterrupted("its pod failed"), id="the pod failed and nothing says why"),
    pytest.param(
        {
            "phase": "Failed",
            "reason": "DeadlineExceeded",
            "containerStatuses": [container(137, startedAt="2026-03-01T12:00:01Z", finishedAt="2026-03-01T12:02:00Z")],
        },
        PreflightInterrupted(
            "it did not end within 120 seconds. If spec.image has another program, this must end, or answer GET /readyz"
            " on port 7871 (`probe agent` in docs/runtime-contract.md)",
            late=True,
        ),
        id="its time ended it",
    ),
    pytest.param(
        {
            "phase": "Failed",
            "reason": "DeadlineExceeded",
            "containerStatuses": [container(2, finishedAt="2026-03-01T12:00:09Z")],
        },
        PreflightFailed("ah"),
        id="its time ended what was beside it",
    ),
]


@pytest.mark.parametrize(("facts", "wanted"), VERDICTS)
def test_evaluate_pod_returns_the_preflight_result(facts, wanted):
    told = {"kind": "Pod", "namespace": "shop", "name": "p", "uid": "u", "resource_version": "1", "created": NOW}
    assert evaluate_pod(CachedObject(**told, projection=facts)) == wanted
    assert evaluate_pod(CachedObject(**told, projection=facts, deleting=True)) == PreflightInterrupted(
        "its pod was deleted"
    )


EQUIPPED = {
    "metadata": {
        "labels": {"team": "verse", "sidecar.istio.io/inject": "false"},
        "annotations": {"example.com/scrape": "no"},
    },
    "spec": {
        "containers": [
            {
                "name": "shipper",
                "image": "registry.example.com/shipper:1",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "32Mi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": 7870}},
                "volumeMounts": [{"name": "memory", "mountPath": "/memory"}],
            }
        ],
        "initContainers": [{"name": "before", "image": "registry.example.com/before:1"}],
        "nodeSelector": {"disk": "fast"},
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]},
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    },
}


def preflight_of(agent, settings):
    children = agent_children(AgentParts(agent=agent), settings)
    wanted = preflight(owner_of(agent), children.template, egress_rules=children.egress_rules, referenced=[])
    return probe_manifests(wanted)[1], children


def test_preflight_pod_matches_no_selector_of_the_agent(objects, settings):
    pod, children = preflight_of(objects.agent_view(podTemplate=EQUIPPED), settings)
    labels = pod["metadata"]["labels"]
    specs = [manifest["spec"] for manifest in children.serving[1:]]
    selectors = [spec.get("selector") or spec["podSelector"] for spec in specs]
    assert len(selectors) == 3, "one each of policy, Service and Deployment"
    for selector in selectors:
        wanted = selector.get("matchLabels", selector)
        assert not wanted.items() <= labels.items()
        assert wanted.items() <= children.template["metadata"]["labels"].items()
    assert labels["team"] == "verse"
    assert pod["spec"]["readinessGates"], "a Service that selects by team does not find it"


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_preflight_name_depends_on_pod_metadata(objects, settings, part):
    names = {
        preflight_of(objects.agent_view(podTemplate={"metadata": {part: {"team": team}}}), settings)[0]["metadata"][
            "name"
        ]
        for team in ("verse", "prose")
    }
    assert len(names) == 2


LITTLE = [
    pytest.param({}, {"cpu": "20m", "memory": "96Mi"}, id="it has no limits"),
    pytest.param({"cpu": "1", "memory": "2Gi"}, {"cpu": "20m", "memory": "96Mi"}, id="its limits are wide"),
    pytest.param({"memory": "64Mi"}, {"cpu": "20m", "memory": "64Mi"}, id="it lives in less"),
    pytest.param({"cpu": "0.01", "memory": "60M"}, {"cpu": "0.01", "memory": "60M"}, id="it counts in other units"),
    pytest.param({"cpu": 2, "memory": 1e9}, {"cpu": "20m", "memory": "96Mi"}, id="they are numbers"),
]


@pytest.mark.parametrize(("limits", "wanted"), LITTLE)
def test_preflight_requests_stay_below_its_limits(objects, settings, limits, wanted):
    resources = {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": limits}
    pod, _ = preflight_of(objects.agent_view(resources=resources), settings)
    assert pod["spec"]["containers"][0]["resources"] == {
        "requests": {**wanted, "ephemeral-storage": "16Mi"},
        "limits": {**limits, "ephemeral-storage": "1Gi"},
    }


def test_preflight_pod_equals_the_agent_pod_without_its_memory(objects, settings, golden):
    poet = objects.agent_view(
        image="registry.example.com/poet:1", memory={"storage": {"size": "5Gi"}}, podTemplate=EQUIPPED
    )
    children = agent_children(AgentParts(agent=poet), settings)
    wanted = preflight(owner_of(poet), children.template, egress_rules=children.egress_rules, referenced=["7"])
    golden("preflight", probe_manifests(wanted))
    other = preflight(owner_of(poet), children.template, egress_rules=children.egress_rules, referenced=["8"])
    assert other.name != wanted.name, "a changed Secret needs a new preflight"
