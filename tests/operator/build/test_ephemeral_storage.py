"""Every pod has a limit for its node's disk, and the volumes on that disk fit into the limit."""

from dataclasses import replace

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as some

from fleetwright_api.quantity import parse_quantity
from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_api.spec.skill import GitRepositorySource, SkillSourceSpec
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.build.pod.ephemeral_storage import limited
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.build.pod.skill_source import RemoteSkill
from fleetwright_operator.build.preflight import preflight
from fleetwright_operator.settings import Settings

KEY = "ephemeral-storage"
COMMIT = SkillSourceSpec(git=GitRepositorySource(url="https://git.example.com/skills", commit="0" * 40))


def agent_pod(objects, settings, *, fetched=(), **spec):
    skills = {name: RemoteSkill(source=COMMIT, digest="sha256:0") for name in fetched}
    children = agent_children(AgentParts(agent=objects.agent_view(**spec), snapshots=skills), settings)
    return children.manifests[-1]["spec"]["template"]["spec"]


def server_pod(objects, settings, **workload):
    children = server_children(objects.server_view(**workload), users=["poet"], settings=settings)
    return children[-1]["spec"]["template"]["spec"]


def storage(container):
    return tuple(container["resources"][part][KEY] for part in ("requests", "limits"))


def size(pod, name):
    return next(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if volume["name"] == name)


def patch(*containers, **spec):
    return {"spec": {"containers": list(containers), **spec}}


def one(**parts):
    return {part: {KEY: value} for part, value in parts.items()}


SPECS = [
    pytest.param({}, ("64Mi", "1Gi"), "1Gi", id="an agent that names nothing"),
    pytest.param({"resources": {"limits": {"cpu": "1"}}}, ("64Mi", "1Gi"), "1Gi", id="only a processor limit"),
    pytest.param({"resources": one(limits="2Gi")}, ("64Mi", "2Gi"), "2Gi", id="a limit of its own"),
    pytest.param({"resources": one(limits="32Mi")}, ("32Mi", "32Mi"), "32Mi", id="a limit below the default request"),
    pytest.param({"resources": one(requests="4Gi")}, ("4Gi", "4Gi"), "4Gi", id="a request above the default limit"),
    pytest.param(
        {"memory": {"storage": {"ephemeral": True}}}, ("64Mi", "2Gi"), "1Gi", id="ephemeral memory of the default size"
    ),
    pytest.param(
        {"memory": {"storage": {"ephemeral": True, "size": "5Gi"}}, "resources": one(limits="512Mi")},
        ("64Mi", "5632Mi"),
        "512Mi",
        id="ephemeral memory and a limit of its own",
    ),
    pytest.param(
        {"podTemplate": patch({"name": "agent", "resources": {"limits": {"cpu": "2"}}})},
        ("64Mi", "1Gi"),
        "1Gi",
        id="a patch of another resource",
    ),
    pytest.param(
        {"podTemplate": patch({"name": "agent", "resources": one(limits="3Gi")})},
        ("64Mi", "3Gi"),
        "3Gi",
        id="a patch of the limit",
    ),
    pytest.param(
        {"podTemplate": patch({"name": "agent", "resources": one(limits="8Mi")})},
        ("8Mi", "8Mi"),
        "8Mi",
        id="a patch of the limit to less than the request",
    ),
    pytest.param(
        {"podTemplate": patch({"name": "agent", "resources": one(requests="3Gi")})},
        ("3Gi", "3Gi"),
        "3Gi",
        id="a patch of the request to more than the limit",
    ),
    pytest.param(
        {"podTemplate": patch({"name": "agent", "env": [{"name": "A", "value": "b"}]})},
        ("64Mi", "1Gi"),
        "1Gi",
        id="a patch of something else",
    ),
]


@pytest.mark.parametrize(("spec", "wanted", "tmp"), SPECS)
def test_agent_ephemeral_storage_limit_sizes_its_tmp(objects, settings, spec, wanted, tmp):
    pod = agent_pod(objects, settings, **spec)
    assert (storage(pod["containers"][0]), size(pod, "tmp")) == (wanted, tmp)


WORKLOADS = [
    pytest.param({}, ("64Mi", "1Gi"), "1Gi", id="a server that names nothing"),
    pytest.param({"resources": {"limits": {"memory": "1Gi"}}}, ("64Mi", "1Gi"), "1Gi", id="only a memory limit"),
    pytest.param({"resources": one(requests="8Mi", limits="2Gi")}, ("8Mi", "2Gi"), "2Gi", id="both of its own"),
    pytest.param(
        {"podTemplate": patch({"name": "server", "resources": one(limits="3Gi")})},
        ("64Mi", "3Gi"),
        "3Gi",
        id="a patch of the limit",
    ),
]


@pytest.mark.parametrize(("workload", "wanted", "tmp"), WORKLOADS)
def test_server_ephemeral_storage_limit_sizes_its_tmp(objects, settings, workload, wanted, tmp):
    pod = server_pod(objects, settings, **workload)
    assert (storage(pod["containers"][0]), size(pod, "tmp")) == (wanted, tmp)


ADDED = [
    pytest.param({}, ("64Mi", "1Gi"), id="without resources"),
    pytest.param({"resources": {"limits": {"memory": "32Mi"}}}, ("64Mi", "1Gi"), id="with a memory limit"),
    pytest.param({"resources": one(limits="10Mi")}, ("10Mi", "10Mi"), id="with a limit of its own"),
]


@pytest.mark.parametrize(("fields", "wanted"), ADDED)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_added_container_gets_the_default_storage_limit(objects, settings, kind, fields, wanted):
    added = {"name": "side", "image": "registry.example.com/side:1", **fields}
    pod = agent_pod(objects, settings, podTemplate={"spec": {kind: [added]}})
    (side,) = [each for each in pod[kind] if each["name"] == "side"]
    assert storage(side) == wanted
    given, found = fields.get("resources", {}), side["resources"]
    assert {key: value for key, value in found["limits"].items() if key != KEY} == {
        key: value for key, value in given.get("limits", {}).items() if key != KEY
    }


INSTALLATIONS = [
    pytest.param(one(requests="0", limits="8Gi"), ("0", "8Gi"), id="other figures"),
    pytest.param({"limits": {"memory": "1Gi"}}, ("64Mi", "1Gi"), id="none, as of an earlier version"),
]


@pytest.mark.parametrize(("resources", "wanted"), INSTALLATIONS)
def test_settings_define_default_ephemeral_storage(objects, settings, resources, wanted):
    set_so = replace(settings, agent_resources=resources, server_resources=resources)
    assert storage(agent_pod(objects, set_so)["containers"][0]) == wanted
    assert storage(server_pod(objects, set_so)["containers"][0]) == wanted


def test_ephemeral_storage_limit_includes_fetched_skills(objects, settings):
    pod = agent_pod(objects, settings, fetched=["haiku", "ode"])
    assert storage(pod["containers"][0]) == ("64Mi", "1088Mi")
    assert size(pod, "tmp") == "1Gi"
    assert [storage(each) for each in pod["initContainers"]] == [("64Mi", "1088Mi")] * 2


REFUSED = [
    pytest.param("much", "podTemplate.spec.containers[agent].resources must be an object", id="text"),
    pytest.param({"limits": []}, ".resources.limits must be an object", id="a list of limits"),
    pytest.param(one(limits="much"), f".resources.limits.{KEY} must be a quantity, such as 1Gi", id="a word"),
    pytest.param(one(requests=True), f".resources.requests.{KEY} must be a quantity, such as 1Gi", id="a boolean"),
]


@pytest.mark.parametrize(("resources", "says"), REFUSED)
def test_pod_template_refuses_invalid_resources(objects, settings, resources, says):
    pod = agent_pod(objects, settings)
    (problem,) = template_problems(patch({"name": "agent", "resources": resources}), {"spec": pod}, settings)
    assert says in problem


QUANTITIES = some.sampled_from([None, "8Mi", "64Mi", "1Gi", "3G", "5Gi", 1 << 20])
RESOURCES = some.builds(
    lambda request, limit, cpu: {
        **({"requests": {KEY: request}} if request is not None else {}),
        **({"limits": {KEY: limit, "cpu": cpu}} if limit is not None else {}),
    },
    QUANTITIES,
    QUANTITIES,
    some.sampled_from(["1", "500m"]),
).filter(lambda each: parse_quantity(_of(each, "requests", 0)) <= parse_quantity(_of(each, "limits", "1Ei")))


def _of(resources, part, default):
    return resources.get(part, {}).get(KEY, default)


# The fixture holds only functions, so it has no state to reset between examples.
@hypothesis.settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(own=RESOURCES, added=RESOURCES, ephemeral=some.booleans(), fetched=some.integers(0, 3))
def test_ephemeral_storage_limit_covers_request_and_volumes(objects, own, added, ephemeral, fetched):
    settings = Settings()
    spec = {
        "resources": own,
        "memory": {"storage": {"ephemeral": ephemeral, "size": "2Gi"}},
        "podTemplate": patch({"name": "side", "image": "i", "resources": added}),
    }
    agent = objects.agent_view(**spec)
    skills = {f"s{number}": RemoteSkill(source=COMMIT, digest="sha256:0") for number in range(fetched)}
    children = agent_children(AgentParts(agent=agent, snapshots=skills), settings)
    server = objects.server_view(resources=own, podTemplate=patch({"name": "side", "image": "i", "resources": added}))
    remote = parse_mcp_server(
        objects.custom("McpServer", "remote", {"remote": {"url": "https://tools.example.com/mcp"}})
    )
    for pod in (
        children.template["spec"],
        preflight(owner_of(agent), children.template, egress_rules=None, referenced=[]).pod,
        server_children(server, users=[], settings=settings)[-1]["spec"]["template"]["spec"],
        server_probe(remote, about=[], services={}, settings=settings).pod,
    ):
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            request, limit = map(parse_quantity, storage(container))
            assert request <= limit
        volumes = [volume["emptyDir"] for volume in pod["volumes"] if "emptyDir" in volume]
        assert all("sizeLimit" in volume for volume in volumes)
        kept = sum(parse_quantity(volume["sizeLimit"]) for volume in volumes) - parse_quantity(size(pod, "tmp"))
        if "readinessGates" not in pod:
            assert parse_quantity(storage(pod["containers"][0])[1]) >= parse_quantity(size(pod, "tmp")) + kept


@given(own=RESOURCES, default=RESOURCES)
def test_limited_is_idempotent(own, default):
    whole = limited(own, default)
    assert limited(whole, default) == whole
