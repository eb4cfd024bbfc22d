"""Probes: the pod and its policy, the result of an ended pod, and probes that resume after an interruption."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_api.spec.skill import OciImageSource, SkillSourceSpec
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import api_error
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.egress import dns_rule
from fleetwright_operator.build.probe import Probe, probe_manifests, runtime_pod
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.observe.watch_index import WatchIndex
from fleetwright_operator.rollout.probe_result import (
    REPORT_LIMIT,
    ProbeFailure,
    ProbePending,
    ProbeReport,
    parse_report,
    unreported,
)
from fleetwright_operator.rollout.probe_runner import ProbeRunner, delete_probes
from fleetwright_operator.rollout.skill_probe import with_pull_failure
from fleetwright_operator.rollout.slot_limiter import SlotLimiter, find_probed
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.workload_health import IMAGE_PULL, WorkloadHealth


@pytest.fixture
def probe(objects, settings) -> Probe:
    owner = owner_of(objects.server_view())
    return Probe(owner=owner, pod=runtime_pod(["mcp", "{}"], settings), egress_rules=[dns_rule(settings)])


def test_probe_manifests_match_golden(probe, settings, golden):
    private = runtime_pod(["mcp", "{}"], replace(settings, pull_secrets=("registry",)))
    golden("probe", probe_manifests(replace(probe, pod=private)))


WAYS = [
    pytest.param([], ["Ingress", "Egress"], id="nowhere"),
    pytest.param(None, ["Ingress"], id="where other policies say"),
]


@pytest.mark.parametrize(("egress_rules", "types"), WAYS)
def test_probe_policy_omits_empty_rule_lists(probe, egress_rules, types):
    policy, _ = probe_manifests(replace(probe, egress_rules=egress_rules))
    assert policy["spec"]["policyTypes"] == types
    assert set(policy["spec"]) == {"podSelector", "policyTypes"}


def test_probe_matches_no_selector_of_its_owner(probe):
    for manifest in probe_manifests(probe):
        assert not probe.owner.selector.items() <= manifest["metadata"]["labels"].items()


def test_probe_name_depends_on_every_part_of_the_probe(probe, settings):
    others = [
        replace(probe, about=("another pod",)),
        replace(probe, seconds=61),
        replace(probe, egress_rules=[]),
        replace(probe, pod=runtime_pod(["mcp", "else"], settings)),
        replace(probe, owner=replace(probe.owner, kind=names.AGENT)),
        replace(probe, owner=replace(probe.owner, uid="the object was made anew")),
    ]
    assert replace(probe).name == probe.name
    assert len({each.name for each in (probe, *others)}) == 7


def ended(phase: str, *, code: int = 0, message: str = "", **facts: object) -> dict:
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message}}
    return {"phase": phase, "containerStatuses": [{"name": "probe", "image": "img", "state": state}], **facts}


def beside(sidecar: dict, *, phase: str, code: int | None = None, **facts: object) -> dict:
    """Return the status of a pod to which a webhook has added a container, before the probe's own."""
    own = {"running": {}} if code is None else {"terminated": {"exitCode": code, "reason": "Error", "message": "Oops"}}
    names_states = [("sidecar", sidecar), ("probe", own)]
    return {
        "phase": phase,
        "containerStatuses": [{"name": n, "image": "i", "state": s} for n, s in names_states],
        **facts,
    }


RUNS = {"running": {}}
BROKE = {"terminated": {"exitCode": 2, "message": "no license"}}
WAITING = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
PODS = [
    pytest.param(None, ProbePending(), id="a pod that was not seen yet says nothing"),
    pytest.param({"phase": "Running"}, ProbePending(), id="a running pod says nothing"),
    pytest.param(
        {"phase": "Pending", "containerStatuses": [{"image": "img", "state": WAITING}]},
        ProbePending(WorkloadHealth(False, "ImagePull", "image 'img' cannot be pulled: ErrImagePull: not found")),
        id="a pod that cannot start says why",
    ),
    pytest.param(ended("Succeeded"), None, id="a pod that succeeded is asked for its log"),
    pytest.param(
        ended("Failed", code=2, message="noise\nfleetwright-agent: no such file\n"),
        ProbeFailure("Refused", "no such file"),
        id="a program that refused is quoted by its last line",
    ),
    pytest.param(
        ended("Failed", code=75, message="fleetwright-agent: https://git.example.com/s cannot be reached\n"),
        ProbeFailure("Unavailable", "https://git.example.com/s cannot be reached"),
        id="a program that could not look says what kept it",
    ),
    pytest.param(
        ended("Running", code=2, message="fleetwright-agent: no such file\n"),
        ProbeFailure("Refused", "no such file"),
        id="a program that refused is heard before its pod's phase follows",
    ),
    pytest.param(
        {"phase": "Running", "containerStatuses": [{"name": "sidecar", "state": {"terminated": {"exitCode": 2}}}]},
        ProbePending(WorkloadHealth(False, "CrashLoop", "the container ended with exit code 2 (unknown)")),
        id="a container beside it may be started again",
    ),
    pytest.param(
        ended("Failed", code=1, message="Traceback"),
        ProbeFailure("CrashLoop", "the container ended with exit code 1 (Error): Traceback"),
        id="a program that broke is no answer to the question",
    ),
    pytest.param(beside(RUNS, phase="Running", code=0), None, id="a report does not wait for a sidecar"),
    pytest.param(beside(BROKE, phase="Failed", code=0), None, id="a sidecar that fails leaves the report valid"),
    pytest.param(
        beside(RUNS, phase="Failed", code=0, reason="DeadlineExceeded"),
        None,
        id="a deadline after the report is no failure",
    ),
    pytest.param(
        beside(BROKE, phase="Failed", code=1),
        ProbeFailure("CrashLoop", "the container ended with exit code 1 (Error): Oops"),
        id="the exit code of a sidecar is not the probe's",
    ),
    pytest.param(
        beside(RUNS, phase="Running", code=1),
        ProbeFailure("CrashLoop", "the container ended with exit code 1 (Error): Oops"),
        id="a crash does not wait for a sidecar",
    ),
    pytest.param(
        beside(RUNS, phase="Failed", code=137, reason="DeadlineExceeded"),
        ProbeFailure("DeadlineExceeded", "the probe did not end within its deadline"),
        id="a probe that the deadline killed took too long",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "DeadlineExceeded"},
        ProbeFailure("DeadlineExceeded", "the probe did not end within its deadline"),
        id="a pod that took too long says so",
    ),
    pytest.param(
        {"phase": "Failed", "reason": "Evicted", "message": "low on memory"},
        ProbeFailure("PodFailed", "the pod failed: Evicted low on memory"),
        id="a pod that was evicted says so",
    ),
]


@pytest.mark.parametrize(("facts", "wanted"), PODS)
def test_unreported_explains_the_state_of_a_pod(facts, wanted):
    pod = (
        None
        if facts is None
        else CachedObject(kind="Pod", namespace="", name="", uid="", resource_version="", projection=facts)
    )
    assert unreported(pod) == wanted


LINES = [
    pytest.param('{"tools": []}\n', ProbeReport({"tools": []}), id="a document is the report"),
    pytest.param("", ProbeFailure("NoReport", "the probe's log does not end with a report"), id="an empty log is none"),
    pytest.param(
        "[" * 60_000, ProbeFailure("NoReport", "the probe's log does not end with a report"), id="a pit is none"
    ),
    pytest.param("[1]", ProbeFailure("NoReport", "the probe's log does not end with a report"), id="a list is none"),
    pytest.param(
        '{"a": "' + "x" * REPORT_LIMIT,
        ProbeFailure("NoReport", f"the probe's report is longer than {REPORT_LIMIT} bytes"),
        id="a report that was cut is none",
    ),
]


@pytest.mark.parametrize(("line", "wanted"), LINES)
def test_parse_report_reads_the_last_log_line(line, wanted):
    assert parse_report(line) == wanted


@pytest.fixture
def cluster(api, settings) -> Cluster:
    cache = Cache(SCHEME, index_keys=WatchIndex(settings).index_keys)

    def hear(event: str, kind: str, body: dict) -> None:
        if event == "DELETED":
            cache.drop(kind, "shop", body["metadata"]["name"], uid=body["metadata"]["uid"])
        elif kind != "Namespace":
            cache.put(kind, body)

    api.listeners.append(hear)
    return Cluster(
        api,
        cache,
        on_change=lambda change: None,
        on_write=lambda verb, kind: None,
        on_status=lambda entry, status: None,
    )


@pytest.fixture
def runner(cluster) -> ProbeRunner:
    limiter = SlotLimiter(
        cluster.cache, holders=lambda: find_probed(cluster.cache, now=0), limit=Settings().probes, wake=lambda key: None
    )
    return ProbeRunner(cluster=cluster, limiter=limiter)


@pytest.fixture
def owner(api, cluster, objects) -> Callable[[], CachedObject]:
    api.put(objects.server())
    return lambda: cluster.cache.get(names.MCP_SERVER, "shop", "tools")


async def test_run_probe_runs_once_and_is_deleted_after_its_result(api, cluster, runner, probe, owner):
    assert await runner.run_probe(probe) == ProbePending()
    assert await runner.run_probe(probe) == ProbePending()
    assert api.writes == [f"apply NetworkPolicy {probe.name}", f"apply Pod {probe.name}"]
    assert api.gets == []

    api.end_pod(probe.name, says='{"tools": [1]}\n')
    assert await runner.run_probe(probe) == ProbeReport({"tools": [1]})
    await delete_probes(cluster, owner())
    assert (api.has("Pod", probe.name), api.has("NetworkPolicy", probe.name)) == (False, True)
    await delete_probes(cluster, owner())
    assert not api.has("NetworkPolicy", probe.name)


async def test_injected_sidecar_keeps_no_probe_from_its_result(api, runner, probe):
    await runner.run_probe(probe)
    pod = api.find("Pod", probe.name)
    sidecar = {"name": "mesh", "image": "mesh:1"}
    states = [("mesh", {"running": {}}), ("probe", {"terminated": {"exitCode": 0}})]
    statuses = [{"name": name, "state": state} for name, state in states]
    api.logs[probe.name] = '{"tools": [1]}\n'
    api.put(
        {
            **pod,
            "spec": {**pod["spec"], "containers": [sidecar, *pod["spec"]["containers"]]},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }
    )
    assert await runner.run_probe(probe) == ProbeReport({"tools": [1]})


async def test_delete_probes_keeps_the_current_probe(api, cluster, runner, probe, owner):
    old = replace(probe, about=("before",))
    await runner.run_probe(old)
    await runner.run_probe(probe)
    for _ in range(2):
        await delete_probes(cluster, owner(), keep=probe.name)
    assert [body["metadata"]["name"] for kind in ("Pod", "NetworkPolicy") for body in api.all(kind)] == [probe.name] * 2


async def test_run_probe_fails_without_a_log_and_repeats_a_lost_pod(api, cluster, runner, probe):
    await runner.run_probe(probe)
    api.end_pod(probe.name)
    del api.logs[probe.name]
    assert await runner.run_probe(probe) == ProbeFailure("NoReport", "the pod's log cannot be read: the pod has no log")
    api.remove("Pod", probe.name)
    assert await runner.run_probe(probe) == ProbePending()
    assert api.has("Pod", probe.name)


async def test_run_probe_reports_a_forbidden_pod(api, cluster, runner, probe):
    api.fault = lambda number, what: api_error(403, "exceeded quota") if " Pod " in what else None
    answer = await runner.run_probe(probe)
    assert answer == ProbeFailure("Forbidden", f"Pod '{probe.name}' was forbidden by the API server: exceeded quota")


async def test_run_probe_never_leaves_a_pod_without_its_policy(api, cluster, runner, probe, owner):
    for number in range(6):
        seen = len(api.writes)
        api.fault = lambda now, what, at=seen + number % 2: TimeoutError("no answer") if now == at else None
        with pytest.raises(TimeoutError):
            await _round(cluster, runner, probe, owner)
        assert not api.has("Pod", probe.name) or api.has("NetworkPolicy", probe.name)
    api.fault = lambda number, what: None
    assert await runner.run_probe(probe) == ProbePending()


async def _round(cluster, runner, probe, owner):
    await runner.run_probe(probe)
    await delete_probes(cluster, owner())
    await delete_probes(cluster, owner())


async def test_probe_is_indexed_by_owner_and_is_not_a_child(cluster, runner, probe, owner):
    await runner.run_probe(probe)
    cache = cluster.cache
    assert {entry.kind for entry in cache.find("probe-of", *owner().id)} == {"Pod", "NetworkPolicy"}
    assert cache.find("child-of", *owner().id) == []


async def test_at_most_four_probes_run_at_the_same_time(world, api, objects):
    for number in range(10):
        body = objects.server(f"tools-{number}")
        api.put({**body, "spec": {"remote": {"url": f"https://tools-{number}.example.com/mcp"}}})
    await world.start()
    await world.settle()
    seen = set()
    while running := running_probes(api):
        assert len(running) <= Settings().probes
        seen.update(running)
        waiting = [f"tools-{n}" for n in range(10) if not api.probes(f"tools-{n}") and is_unprobed(api, f"tools-{n}")]
        for name in waiting:
            assert "waits for 4 other probes" in world.conditions(names.MCP_SERVER, name)["Available"][2]
        api.end_pod(running[0], says='{"serverInfo": {}, "tools": [], "toolsDigest": "sha256:0"}')
        await world.settle()
    assert len(seen) == 10
    assert not any(is_unprobed(api, f"tools-{number}") for number in range(10))


async def test_probe_of_a_deleted_server_gives_its_slot_to_the_next(world, api, objects):
    for number in range(Settings().probes + 1):
        body = objects.server(f"tools-{number}")
        api.put({**body, "spec": {"remote": {"url": f"https://tools-{number}.example.com/mcp"}}})
    await world.start()
    await world.settle()
    first, last = "tools-0", f"tools-{Settings().probes}"
    assert not api.probes(last)
    api.remove(names.MCP_SERVER, first)
    await world.until(lambda: api.probes(last))


def running_probes(api) -> list[str]:
    pods = [pod for pod in api.all("Pod") if pod["metadata"]["labels"].get(names.COMPONENT) == names.PROBE]
    return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]


def is_unprobed(api, name) -> bool:
    return "discovery" not in api.find(names.MCP_SERVER, name)["status"]


IMAGE = f"registry.example.com/skills/haiku@sha256:{'b' * 64}"


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("failed to resolve reference: not found", "Refused"),
        ("pull access denied, repository does not exist", "Refused"),
        ("unexpected status: 401 Unauthorized", "Refused"),
        ("dial tcp 10.0.0.7:443: connect: connection refused", "Unavailable"),
        ("unexpected status from HEAD request: 503 Service Unavailable", "Unavailable"),
        ("lookup registry.example.com: i/o timeout", "Unavailable"),
    ],
)
def test_registry_that_is_down_is_asked_again_each_minute(answer, wanted):
    source = SkillSourceSpec(image=OciImageSource(reference=IMAGE))
    why = WorkloadHealth(False, IMAGE_PULL, f"image {IMAGE!r} cannot be pulled: {answer}")
    found = with_pull_failure(source, ProbePending(why))
    assert (found.reason, found.message) == (wanted, why.message)
