"""What the rules of the CRD say is said again where they were absent, and every address is judged."""

from dataclasses import replace

import pytest

from fleetwright_operator import names
from fleetwright_operator.cluster.entry import Entry

MODEL = {"name": "m", "baseURL": "https://models.example.com/v1"}
INVALID = [
    pytest.param({"instructions": " "}, "InstructionsMissing", "spec.instructions is empty", id="no instructions"),
    pytest.param({"model": {"name": ""}}, "ModelMissing", "spec.model.name is empty", id="no model"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "http://127.0.0.1/v1"}},
        "InvalidAddress",
        "spec.model.baseURL: 127.0.0.1 is the agent's own pod",
        id="a model on loopback",
    ),
    pytest.param(
        {"model": {"name": "m", "baseURL": "http://169.254.169.254/v1"}},
        "InvalidAddress",
        "address of the node",
        id="the cloud's metadata as a model",
    ),
    pytest.param(
        {"model": {**MODEL, "maxOutputTokens": 200_000}},
        "ModelLimits",
        "below the context window",
        id="no room to read",
    ),
    pytest.param({"model": {**MODEL, "timeout": "soon"}}, "InvalidDuration", "such as 90s", id="no duration"),
    pytest.param({"peers": [{"name": "poet"}]}, "PeerIsSelf", "names the agent itself", id="its own peer"),
]


@pytest.mark.parametrize(("spec", "reason", "says"), INVALID)
async def test_an_invalid_spec_that_slipped_in_is_a_condition_and_no_loop(world, api, objects, spec, reason, says):
    api.put(objects.agent(**spec))
    await world.start()
    await world.settle()
    status, found, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, found) == ("False", reason)
    assert says in message
    assert not api.has("Deployment", "poet")
    assert sum(write.startswith("status Agent") for write in api.writes) == 1


SERVERS = [
    pytest.param({}, "SourceAmbiguous", id="neither"),
    pytest.param({"remote": {"url": "http://x.example/"}, "workload": {"image": "i"}}, "SourceAmbiguous", id="both"),
    pytest.param({"remote": {"url": "http://localhost/mcp"}}, "InvalidAddress", id="loopback"),
    pytest.param({"workload": {}}, "ImageMissing", id="no image"),
]


@pytest.mark.parametrize(("spec", "reason"), SERVERS)
async def test_an_invalid_server_is_a_condition_on_it_and_on_its_agents(world, api, objects, spec, reason):
    api.put(objects.custom(names.MCP_SERVER, "tools", spec))
    api.put(objects.agent(mcpServers=[{"name": "tools"}]))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "tools")["Accepted"][:2] == ("False", reason)
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "McpServerInvalid"


async def test_agents_that_name_each_other_both_run(world, api, objects):
    api.put(objects.agent("poet", peers=[{"name": "editor"}]))
    api.put(objects.agent("editor", peers=[{"name": "poet"}]))
    await world.start()
    await world.settle()
    for name in ("poet", "editor"):
        assert world.conditions("Agent", name)["Programmed"][0] == "True"
    assert "peer.shop.editor" in api.find("Secret", "poet-auth")["data"]


async def test_a_service_of_a_namespace_that_is_not_watched_is_said_so(api, objects, make_world, settings):
    api.put(objects.agent(model={"name": "m", "baseURL": "http://llm.models.svc/v1"}))
    world = type(make_world(api))(api, replace(settings, namespaces=("shop",)))
    await world.start()
    await world.settle()
    await world.stop()
    message = world.conditions("Agent", "poet")["ReferencesResolved"][2]
    assert "namespace 'models' is not among those this installation looks at" in message


async def test_what_a_running_agent_says_of_its_servers_reaches_both_statuses(world, api, objects):
    remote = {"remote": {"url": "https://weather.example.com/mcp"}}
    api.put(objects.custom(names.MCP_SERVER, "weather", remote))
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "weather")["Available"][:2] == ("Unknown", "NotObserved")
    api.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": dict(_pod().labels)}})
    pod = _pod()
    world.program.agent_said(pod, {"mcpServers": [{"name": "weather", "reachable": False, "message": "refused"}]})
    await world.settle()
    assert world.conditions("Agent", "poet")["Degraded"][2] == "McpServer 'weather' cannot be reached: refused"
    assert world.conditions("McpServer", "weather")["Available"] == (
        "False",
        "Unreachable",
        "agent 'poet' cannot reach it: refused",
    )
    world.program.agent_said(pod, {"mcpServers": [{"name": "weather", "reachable": True}]})
    (probe,) = api.probes("weather")
    api.end_pod(probe, says='{"serverInfo": {}, "tools": [], "toolsDigest": "sha256:0"}')
    await world.settle()
    assert "Degraded" not in world.conditions("Agent", "poet")
    assert world.conditions("McpServer", "weather")["Ready"][0] == "True"


def _pod():
    labels = names.labels(names.AGENT, "poet")
    return Entry(kind="Pod", namespace="shop", name="p", uid="u", resource_version="1", labels=labels)
