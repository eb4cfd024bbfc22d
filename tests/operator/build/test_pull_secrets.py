"""The image pull Secrets of pods: the installation's for the runtime's image, and those that a spec names."""

from dataclasses import replace

import pytest

from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_api.spec.skill import parse_skill
from fleetwright_operator.build.deployment import agent_deployment
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.build.pod.skill_source import RemoteSkill, skill_probe
from fleetwright_operator.build.preflight import preflight

GIT = {"git": {"url": "https://git.example.com/haiku.git", "commit": "c" * 40}}
IMAGE = {"image": {"reference": f"registry.example.com/haiku@sha256:{'b' * 64}", "pullSecret": {"name": "skills"}}}
OWN = {"imagePullSecrets": [{"name": "team"}]}


@pytest.fixture
def settings(settings):
    return replace(settings, pull_secrets=("company", "mirror"))


def pulled(pod):
    return [secret["name"] for secret in pod.get("imagePullSecrets", ())]


def parse_source(objects, source):
    return parse_skill(objects.custom("Skill", "haiku", {"source": source})).spec.source


AGENTS = [
    pytest.param({}, None, ["company", "mirror"], id="the installation's where it names none"),
    pytest.param({"image": "i"}, None, ["company", "mirror"], id="also for an image of its own"),
    pytest.param(OWN, None, ["team"], id="its own in their place"),
    pytest.param({**OWN, "image": "i"}, GIT, ["team", "company", "mirror"], id="both where our image fetches"),
    pytest.param({}, IMAGE, ["company", "mirror", "skills"], id="those of its skills beside them"),
    pytest.param({"imagePullSecrets": [{"name": "skills"}]}, IMAGE, ["skills"], id="each once"),
]


@pytest.mark.parametrize(("spec", "source", "wanted"), AGENTS)
def test_agent_and_preflight_use_the_same_pull_secrets(objects, settings, spec, source, wanted):
    agent = objects.agent_view(**spec)
    skills = {"haiku": RemoteSkill(source=parse_source(objects, source), digest="d")} if source else {}
    deployment = agent_deployment(
        owner_of(agent), agent.spec, revision="r", snapshots=skills, servers={}, settings=settings
    )
    template = deployment["spec"]["template"]
    assert pulled(template["spec"]) == wanted
    assert pulled(preflight(owner_of(agent), template, egress_rules=[], referenced=[]).pod) == wanted


def test_probe_pods_use_the_pull_secrets_of_the_installation(objects, settings):
    server = parse_mcp_server(
        objects.custom("McpServer", "weather", {"remote": {"url": "https://weather.example.com/mcp"}})
    )
    assert pulled(server_probe(server, about=[], services={}, settings=settings).pod) == ["company", "mirror"]
    wanted = [(GIT, ["company", "mirror"]), (IMAGE, ["company", "mirror", "skills"])]
    for source, names in wanted:
        skill = parse_skill(objects.custom("Skill", "haiku", {"source": source}))
        assert pulled(skill_probe(skill, about=[], services={}, settings=settings).pod) == names


@pytest.mark.parametrize(("spec", "wanted"), [({}, []), (OWN, ["team"])], ids=["none", "its own"])
def test_workload_server_uses_only_its_own_pull_secrets(objects, settings, spec, wanted):
    for transport in ({}, {"transport": "Stdio", "command": ["serve"]}):
        server = objects.server_view(**spec, **transport)
        deployment = server_children(server, users=[], settings=settings)[-1]
        assert pulled(deployment["spec"]["template"]["spec"]) == wanted


async def test_workload_server_gets_pull_secrets_added_later(world, api, objects):
    api.put(objects.server())
    await world.start()
    await world.settle()
    assert pulled(api.find("Deployment", "tools-mcp")["spec"]["template"]["spec"]) == []
    api.put(objects.server(**OWN))
    await world.settle()
    assert pulled(api.find("Deployment", "tools-mcp")["spec"]["template"]["spec"]) == ["team"]
