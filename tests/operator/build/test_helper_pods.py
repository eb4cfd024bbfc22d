"""Helper pods: placed as their owner's own pod, and admissible in its namespace."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fleetwright_api.quantity import parse_quantity
from fleetwright_api.spec.skill import parse_skill
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.build.network.addresses import Destination
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS, NamespaceLimits, fit_pod
from fleetwright_operator.build.pod.skill_source import RemoteSkill, skill_probe
from fleetwright_operator.build.preflight import preflight
from fleetwright_operator.build.probe import Probe, probe_manifests
from fleetwright_operator.build.workspace.children import helpers_of, workspace_children
from fleetwright_operator.build.workspace.clone import clone_manifests, git_source
from fleetwright_operator.settings import HelperPodDefaults, Settings

LINUX = {"kubernetes.io/os": "linux"}
GIT = {"git": {"url": "https://git.example.com/haiku.git", "commit": "c" * 40}}
WORKSPACE = {
    "image": "debian",
    "source": {"git": {"url": "https://git.example.com/shop.git"}},
    "network": {"egress": [{"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]}]},
}
DEFAULTS = HelperPodDefaults(
    resources={"requests": {"cpu": "200m"}, "limits": {"cpu": "1", "memory": "300Mi"}},
    labels={"cost": "platform"},
    annotations={"sidecar.istio.io/inject": "false"},
    node_selector={"pool": "helpers"},
    tolerations=({"key": "helpers", "operator": "Exists"},),
    priority_class_name="low",
)
AGENT_TOLERATION = {"key": "agents", "operator": "Exists"}
PLACEMENT = {
    "nodeSelector": {"kubernetes.io/arch": "arm64"},
    "tolerations": [AGENT_TOLERATION],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
    "priorityClassName": "high",
    "runtimeClassName": "gvisor",
    "schedulerName": "batch",
}


def agent_pods(objects, settings: Settings, limits: NamespaceLimits = NO_LIMITS, **spec: Any) -> dict[str, Any]:
    """Return the pods of an agent with a workspace by name, with their metadata."""
    agent = objects.agent_view(**{"workspace": WORKSPACE, **spec})
    source = parse_skill(objects.custom("Skill", "haiku", {"source": GIT})).spec.source
    parts = AgentParts(agent=agent, snapshots={"haiku": RemoteSkill(source=source, digest="d")})
    template = agent_children(parts, settings).template
    helpers = helpers_of(agent, limits, settings)
    tried = preflight(owner_of(agent), template, egress_rules=[], referenced=[], helpers=helpers)
    workspace = workspace_children(
        agent, digests=[], runs=True, proxy_address="10.0.0.1", limits=limits, settings=settings
    )
    deployments = {each["metadata"]["name"]: each for each in workspace.manifests if each["kind"] == "Deployment"}
    found = Destination(text="git.example.com:443", peers=({"ipBlock": {"cidr": "0.0.0.0/0"}},), port=443)
    clone = clone_manifests(agent, git_source(agent), input_hash="0", found=found, helpers=helpers)[-1]
    return {
        "agent": template,
        "preflight": probe_manifests(tried)[-1],
        "workspace": deployments["poet-workspace"]["spec"]["template"],
        "proxy": deployments["poet-egress"]["spec"]["template"],
        "clone": clone,
    }


def probe_pods(objects, settings: Settings, limits: NamespaceLimits = NO_LIMITS, **workload: Any) -> dict[str, Any]:
    skill = parse_skill(objects.custom("Skill", "haiku", {"source": GIT}))
    server = objects.server_view(**workload)
    probes = {
        "skill": skill_probe(skill, about=[], services={}, limits=limits, settings=settings),
        "server": server_probe(server, about=[], services={}, limits=limits, settings=settings),
    }
    return {name: probe_manifests(probe)[-1] for name, probe in probes.items()}


def all_pods(objects, settings: Settings, limits: NamespaceLimits = NO_LIMITS, **spec: Any) -> dict[str, Any]:
    server = server_children(objects.server_view(), users=[], settings=settings)[-1]["spec"]["template"]
    return {
        **agent_pods(objects, settings, limits, **spec),
        **probe_pods(objects, settings, limits),
        "workload": server,
    }


def test_every_pod_runs_on_linux(objects, settings):
    for name, pod in all_pods(objects, settings).items():
        assert pod["spec"]["nodeSelector"] == LINUX, name


@pytest.mark.parametrize("omit_ids", [False, True])
def test_pods_have_ids_unless_the_cluster_sets_them(objects, settings, omit_ids):
    for name, pod in all_pods(objects, replace(settings, omit_ids=omit_ids)).items():
        security = pod["spec"]["securityContext"]
        ids = {security.get(field) for field in ("runAsUser", "runAsGroup", "fsGroup")}
        assert ids == ({None} if omit_ids else {65532}), name
        assert security["runAsNonRoot"] is True, name


def test_installation_places_helper_pods(objects, settings):
    pods = {**agent_pods(objects, replace(settings, helper_pods=DEFAULTS))}
    pods |= probe_pods(objects, replace(settings, helper_pods=DEFAULTS))
    assert pods.pop("agent")["spec"]["nodeSelector"] == LINUX
    for name, pod in pods.items():
        assert pod["metadata"]["labels"]["cost"] == "platform", name
        assert pod["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false", name
    for name in pods.keys() - {"preflight"}:
        spec = pods[name]["spec"]
        assert spec["nodeSelector"] == {**LINUX, "pool": "helpers"}, name
        assert spec["tolerations"] == list(DEFAULTS.tolerations), name
        assert spec["priorityClassName"] == "low", name
    assert "priorityClassName" not in pods["preflight"]["spec"], "a preflight is placed as its agent"


def test_pod_template_places_helper_pods_first(objects, settings):
    patch = {"spec": {**PLACEMENT, "affinity": {**PLACEMENT["affinity"], "podAntiAffinity": {}}}}
    settings = replace(settings, helper_pods=DEFAULTS)
    pods = agent_pods(objects, settings, podTemplate=patch)
    pods["server"] = probe_pods(objects, settings, podTemplate=patch)["server"]
    for name in pods.keys() - {"agent", "preflight"}:
        spec = pods[name]["spec"]
        tolerations = [AGENT_TOLERATION, *DEFAULTS.tolerations]
        wanted = {**PLACEMENT, "nodeSelector": {**LINUX, "kubernetes.io/arch": "arm64"}, "tolerations": tolerations}
        assert {key: spec.get(key) for key in wanted} == wanted, name
    for name in ("agent", "preflight"):
        assert pods[name]["spec"]["tolerations"] == [AGENT_TOLERATION], name


@pytest.mark.parametrize("field", ["affinity", "nodeSelector", "tolerations"])
def test_malformed_placement_is_left_to_the_api_server(objects, settings, field):
    server = objects.server_view(podTemplate={"spec": {field: "x"}})
    probe = server_probe(server, about=[], services={}, settings=settings)
    assert probe.spec["nodeSelector"] == LINUX


def test_runtime_class_of_the_workspace_takes_precedence(objects, settings):
    pods = agent_pods(
        objects,
        settings,
        podTemplate={"spec": PLACEMENT},
        workspace={**WORKSPACE, "runtimeClassName": "kata"},
    )
    assert pods["workspace"]["spec"]["runtimeClassName"] == "kata"
    assert pods["proxy"]["spec"]["runtimeClassName"] == "gvisor"


def test_resources_of_the_installation_replace_ours(objects, settings):
    pods = {**agent_pods(objects, replace(settings, helper_pods=DEFAULTS))}
    pods |= probe_pods(objects, replace(settings, helper_pods=DEFAULTS))
    for name in ("proxy", "clone", "skill", "server", "workspace"):
        resources = pods[name]["spec"]["containers"][0]["resources"]
        assert resources["requests"]["cpu"] == "200m", name
        assert (resources["limits"]["cpu"], resources["limits"]["memory"]) == ("1", "300Mi"), name
    assert pods["preflight"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "200m"
    assert "cpu" not in pods["workspace"]["spec"]["containers"][1]["resources"]["limits"], "the shell keeps its own"


def test_own_labels_cannot_be_replaced(objects, settings):
    taken = replace(settings, helper_pods=replace(DEFAULTS, labels={"app.kubernetes.io/component": "x"}))
    for pods in (agent_pods(objects, settings), probe_pods(objects, settings)):
        for name, pod in pods.items():
            others = {**agent_pods(objects, taken), **probe_pods(objects, taken)}
            component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            assert others[name]["metadata"]["labels"]["app.kubernetes.io/component"] == component, name


def test_answer_of_a_probe_does_not_depend_on_its_placement(objects, settings):
    skill = parse_skill(objects.custom("Skill", "haiku", {"source": GIT}))

    def probe(settings: Settings, limits: NamespaceLimits = NO_LIMITS) -> Probe:
        return skill_probe(skill, about=[], services={}, limits=limits, settings=settings)

    probes = [
        probe(settings),
        probe(replace(settings, helper_pods=DEFAULTS)),
        probe(settings, NamespaceLimits(ranges=({"type": "Container", "min": {"cpu": "100m"}},))),
    ]
    assert len({each.question for each in probes}) == 1
    assert len({each.name for each in probes}) == 3


def test_name_of_a_clone_depends_on_its_placement(objects, settings):
    limits = NamespaceLimits(ranges=({"type": "Container", "min": {"cpu": "100m"}},))
    clones = [
        agent_pods(objects, settings)["clone"],
        agent_pods(objects, settings, limits)["clone"],
        agent_pods(objects, replace(settings, helper_pods=DEFAULTS))["clone"],
    ]
    assert len({each["metadata"]["name"] for each in clones}) == 3


def container(**rules: Any) -> dict[str, Any]:
    return {"type": "Container", **rules}


LIMITS = [
    pytest.param([container(min={"cpu": "50m", "memory": "128Mi"})], [], id="minima"),
    pytest.param([container(maxLimitRequestRatio={"cpu": "3", "memory": "1"})], [], id="ratios"),
    pytest.param([container(max={"memory": "200Mi"}, default={"memory": "200Mi"})], [], id="maxima"),
    pytest.param(
        [container(min={"ephemeral-storage": "100Mi"}, max={"cpu": "2"}, default={"cpu": "2"})], [], id="disk"
    ),
    pytest.param([container(default={"cpu": "10m"}, maxLimitRequestRatio={"cpu": "1"})], [], id="a small default"),
    pytest.param([{"type": "Pod", "min": {"cpu": "150m", "memory": "1Gi"}}], [], id="minima of pods"),
    pytest.param([{"type": "Pod", "maxLimitRequestRatio": {"cpu": "2", "memory": "2"}}], [], id="ratios of pods"),
    pytest.param([], ["limits.cpu", "requests.memory", "pods"], id="a quota"),
    pytest.param(
        [
            container(min={"cpu": "50m"}, maxLimitRequestRatio={"cpu": "4", "memory": "2"}),
            {"type": "Pod", "min": {"cpu": "1"}},
        ],
        ["limits.cpu"],
        id="everything",
    ),
]
OWN = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}


@pytest.mark.parametrize(("ranges", "quota"), LIMITS)
def test_helper_pods_are_admissible_in_their_namespace(objects, settings, ranges, quota):
    limits = NamespaceLimits(ranges=tuple(ranges), quota=frozenset(quota))
    pods = {**agent_pods(objects, settings, limits, resources=OWN), **probe_pods(objects, settings, limits)}
    del pods["agent"]
    for name, pod in pods.items():
        if name == "preflight" and any("max" in entry for entry in ranges):
            continue  # Its limits are those of the agent, which such a namespace refuses.
        assert list(refusals(pod["spec"], ranges, quota)) == [], name


def test_agent_container_lends_its_resources_to_the_fetch_of_skills(objects, settings):
    patched = {
        "spec": {"containers": [{"name": "agent", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}}]}
    }
    for spec in ({}, {"resources": OWN}, {"resources": OWN, "podTemplate": patched}):
        pod = agent_pods(objects, settings, **spec)["agent"]["spec"]
        (fetching,) = pod["initContainers"]
        assert fetching["resources"] == pod["containers"][0]["resources"]


def test_admissible_resources_stay_as_they_are_written(objects, settings):
    limits = NamespaceLimits(ranges=({"type": "Container", "min": {"cpu": "1m"}, "max": {"memory": "99Gi"}},))
    assert agent_pods(objects, settings, limits) == agent_pods(objects, settings)
    assert probe_pods(objects, settings, limits) == probe_pods(objects, settings)


def refusals(pod: Mapping[str, Any], ranges: list[Any], quota: list[str]) -> Iterator[str]:
    """Yield what the plugins LimitRanger and ResourceQuota would refuse, after LimitRanger has set its defaults."""
    every = [*pod.get("initContainers", ()), *pod["containers"]]
    defaults = next((entry["default"] for entry in ranges if "default" in entry), {})
    containers = [with_defaults(each["resources"], defaults) for each in every]
    main = containers[len(pod.get("initContainers", ())) :]
    for each in containers:
        for name, request in each["requests"].items():
            if parse_quantity(request) > parse_quantity(each["limits"].get(name, request)):
                yield f"{name}: {request} is above the limit {each['limits'][name]}"
    for entry in ranges:
        for held in containers if entry["type"] == "Container" else [summed(main)]:
            yield from violated(entry, held)
    for key in quota:
        part, _, name = key.partition(".")
        if part in {"requests", "limits"} and any(name not in each[part] for each in containers):
            yield f"{key} is not set"


def with_defaults(resources: Mapping[str, Any], defaults: Mapping[str, str]) -> dict[str, Any]:
    limits = {**defaults, **resources.get("limits", {})}
    return {"limits": limits, "requests": {**limits, **resources.get("requests", {})}}


def summed(containers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of the containers. A resource that one of them does not limit is still summed."""
    parts = {part: {name for each in containers for name in each[part]} for part in ("requests", "limits")}
    return {
        part: {name: sum(parse_quantity(each[part].get(name, 0)) for each in containers) for name in names}
        for part, names in parts.items()
    }


def violated(entry: Mapping[str, Any], held: Mapping[str, Any]) -> Iterator[str]:
    for name, least in entry.get("min", {}).items():
        for part in ("requests", "limits"):
            if name in held[part] and parse_quantity(held[part][name]) < parse_quantity(least):
                yield f"{name}: {held[part][name]} is below {least}"
    for name, most in entry.get("max", {}).items():
        if name not in held["limits"] or parse_quantity(held["limits"][name]) > parse_quantity(most):
            yield f"{name}: no limit, or above {most}"
    for name, ratio in entry.get("maxLimitRequestRatio", {}).items():
        if name not in held["limits"]:
            yield f"{name} has no limit"
        elif parse_quantity(held["limits"][name]) / parse_quantity(held["requests"][name]) > float(ratio) + 1e-9:
            yield f"{name}: {held} is above the ratio {ratio}"


FITS = [
    pytest.param({}, {"min": {"cpu": "100m"}}, {"requests": {"cpu": "100m"}}, id="a missing request"),
    pytest.param(
        {"requests": {"memory": "10M"}, "limits": {"memory": "100M"}},
        {"maxLimitRequestRatio": {"memory": "3"}},
        {"requests": {"memory": "33333334"}, "limits": {"memory": "100M"}},
        id="a ratio raises the request to whole bytes",
    ),
    pytest.param(
        {"requests": {"cpu": "20m"}},
        {"maxLimitRequestRatio": {"cpu": "4"}},
        {"requests": {"cpu": "125m"}, "limits": {"cpu": "500m"}},
        id="a ratio needs a limit",
    ),
    pytest.param(
        {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
        {"max": {"cpu": "500m"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}},
        id="a maximum lowers both",
    ),
]


@pytest.mark.parametrize(("given", "rules", "wanted"), FITS)
def test_fit_pod_changes_only_what_would_be_refused(given, rules, wanted):
    pod = {"containers": [{"name": "a", "resources": given}, {"name": "b", "resources": {}}]}
    fitted = fit_pod(pod, ["a"], NamespaceLimits(ranges=({"type": "Container", **rules},)))
    assert fitted["containers"] == [{"name": "a", "resources": wanted}, {"name": "b", "resources": {}}]


def test_temporary_files_fit_the_limit_of_the_installation(settings, objects):
    small = HelperPodDefaults(resources={"limits": {"ephemeral-storage": "10Mi"}})
    spec = probe_pods(objects, replace(settings, helper_pods=small))["skill"]["spec"]
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "10Mi"
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "10Mi"}} in spec["volumes"]
    assert HelperPodSettings(settings=settings).merge_resources({}) == {}
