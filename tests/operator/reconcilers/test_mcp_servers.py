"""McpServers: the results of probes, the effect of a pin, and the number of probes, which is minimal."""

import ipaddress
import json
from dataclasses import replace

import pytest

from fleetwright_api import names
from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_kube.errors import ApiError
from fleetwright_operator.build.agent import AgentParts, agent_children
from fleetwright_operator.build.config.tool_access import allowed_tools, denied_tools
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.build.probe import probe_manifests
from fleetwright_operator.rollout.probe_result import ProbeFailure, ProbeReport
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.tool_discovery import discovery_health, discovery_status, drift
from fleetwright_operator.status.workload_health import WorkloadHealth

PIN = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
HEADERS = [
    {"name": "Authorization", "secretKeyRef": {"name": "weather", "key": "bearer"}},
    {"name": "X-Tenant", "secretKeyRef": {"name": "weather", "key": "tenant"}},
]
REMOTE = {"url": "https://weather.example.com/sse", "transport": "SSE", "headersFrom": HEADERS}


def tools(**digests: str) -> list[dict[str, str]]:
    return [{"name": name, "digest": digest} for name, digest in digests.items()]


def report(whole: str = PIN, **digests: str) -> dict:
    info = {"name": "weather", "version": "1.2", "protocolVersion": "2025-06-18"}
    return {"serverInfo": info, "tools": tools(**digests), "toolsDigest": whole}


@pytest.fixture
def remote(objects):
    def make(policy=None, status=None, **changes):
        spec = {"remote": {**REMOTE, **changes}, **({"toolPolicy": policy} if policy else {})}
        return {**objects.custom(names.MCP_SERVER, "weather", spec), "status": status or {}}

    return make


@pytest.fixture
def viewed(remote):
    return lambda **parts: parse_mcp_server(remote(**parts))


# The children.


def test_stdio_server_manifests_match_golden(objects, settings, golden):
    workload = {
        "transport": "Stdio",
        "command": ["mcp-server-time"],
        "args": ["--local-timezone", "UTC"],
        "envFrom": [{"secretRef": {"name": "zones"}, "prefix": "TZ_"}, {"configMapRef": {"name": "places"}}],
        "path": "/tools",
    }
    server = objects.server_view("clock", **workload)
    golden("mcpserver-stdio", server_children(server, users=[], environment=["u1 7"], settings=settings))


def test_environment_change_changes_the_server_pod_template(objects, settings):
    server = objects.server_view(envFrom=[{"secretRef": {"name": "zones"}}])
    one, other = (
        server_children(server, users=[], environment=[version], settings=settings)[-1] for version in ("1", "2")
    )
    assert one["spec"]["template"]["metadata"]["annotations"] != other["spec"]["template"]["metadata"]["annotations"]


def test_remote_server_probe_mounts_its_credentials(viewed, settings, golden):
    server = viewed(caSecretRef={"name": "weather-ca"})
    probe = server_probe(server, about=["u1 7"], services={}, settings=settings)
    golden("probe-mcp", probe_manifests(probe))


def test_agent_config_has_server_credentials_and_pinned_tools(objects, viewed, settings, golden):
    """An agent reads its servers' credentials from files and receives the pinned tools."""
    status = {"pinned": {"digest": PIN, "tools": tools(forecast="sha256:1")}, "toolsDigest": OTHER}
    server = viewed(policy={"allow": ["forecast", "alarm"], "deny": ["alarm"], "pin": PIN}, status=status)
    uses = [{"name": "weather", "tools": {"deny": ["tides"]}}]
    model = {"name": "m", "baseURL": "https://m.example.com/v1", "apiKeySecretRef": {"name": "weather", "key": "model"}}
    parts = AgentParts(agent=objects.agent_view(mcpServers=uses, model=model), servers={"weather": server})
    children = agent_children(parts, settings)
    (entry,) = children.rendered.config["mcpServers"]
    deployment = children.manifests[-1]["spec"]["template"]["spec"]
    golden("agent-of-a-server", [entry, *deployment["volumes"], *deployment["containers"][0]["volumeMounts"]])


def use_and_server(objects, tools, policy):
    """Return how an agent uses a server, and the server."""
    (use,) = objects.agent_view(mcpServers=[{"name": "weather", "tools": tools}]).spec.mcp_servers
    return use, parse_mcp_server(objects.custom(names.MCP_SERVER, "weather", {"toolPolicy": policy}))


ALLOWED = [
    pytest.param({}, {}, None, id="nobody restricts anything"),
    pytest.param({"allow": ["a", "b"]}, {}, ["a", "b"], id="the agent restricts"),
    pytest.param({}, {"allow": ["b"]}, ["b"], id="the server restricts"),
    pytest.param({"allow": ["a", "b"]}, {"allow": ["b", "c"]}, ["b"], id="both restrict"),
    pytest.param({"allow": ["a"]}, {"allow": ["b"]}, [], id="they have nothing in common"),
    pytest.param({"allow": ["a"]}, {"deny": ["a"]}, [], id="the server denies what the agent allows"),
]


@pytest.mark.parametrize(("agent", "server", "wanted"), ALLOWED)
def test_allowed_tools_intersects_agent_and_server_lists(objects, agent, server, wanted):
    assert allowed_tools(*use_and_server(objects, agent, server)) == wanted


def test_denied_tools_unites_agent_and_server_lists(objects):
    assert denied_tools(*use_and_server(objects, {"deny": ["a", "b"]}, {"deny": ["b", "c"]})) == [*"abc"]


# The result of a probe.

SEEN = {"pinned": {"digest": PIN, "tools": tools(same="1", other="2", gone="3")}}
DRIFTS = [
    pytest.param({}, {**report(OTHER, a="1")}, None, id="no pin"),
    pytest.param({"pin": PIN}, {}, None, id="nothing seen yet"),
    pytest.param({"pin": PIN}, {**report(PIN, a="1")}, None, id="the pinned list"),
    pytest.param(
        {"pin": PIN},
        {**report(OTHER, a="1")},
        "the digest of the tools differs from toolPolicy.pin, and the pinned list was never observed; "
        f"set toolPolicy.pin to {OTHER} if the change is intended",
        id="another list, and the pinned one was never seen",
    ),
    pytest.param(
        {"pin": PIN},
        {**SEEN, **report(OTHER, same="1", other="9", new="4")},
        "the tools differ from the pinned ones: added new; removed gone; changed other; "
        f"set toolPolicy.pin to {OTHER} if the change is intended",
        id="another list, tool by tool",
    ),
]


@pytest.mark.parametrize(("policy", "status", "says"), DRIFTS)
def test_drift_describes_differences_from_the_pin(viewed, policy, status, says):
    assert drift(viewed(policy=policy, status=status)) == says


def test_drift_truncates_a_long_list_of_tools(viewed):
    many = {f"tool-{number:03}": "1" for number in range(100)}
    status = {"pinned": {"digest": PIN, "tools": []}, **report(OTHER, **many)}
    said = drift(viewed(policy={"pin": PIN}, status=status)) or ""
    assert "tool-019 and 80 more" in said
    assert len(said) < 1000


MANY = {f"tool-{number}": "1" for number in range(256)}
TOO_MANY = "and at most 256 are supported; offer fewer tools, or divide them among several servers"
ANSWERS = [
    pytest.param(ProbeReport(report(a="1")), WorkloadHealth(True, "Discovered", "1 tools"), id="a report"),
    pytest.param(
        ProbeFailure("Refused", "the server cannot be reached"),
        WorkloadHealth(False, "Unreachable", "the server cannot be reached"),
        id="a server that cannot be spoken to",
    ),
    pytest.param(
        ProbeFailure("Unavailable", "the server cannot be reached"),
        WorkloadHealth(False, "Unreachable", "the server cannot be reached"),
        id="a server that may be reached later",
    ),
    pytest.param(
        ProbeFailure("ImagePull", "no such image"),
        WorkloadHealth(None, "ProbeFailed", "its tools could not be discovered: no such image"),
        id="a probe that failed itself",
    ),
    pytest.param(
        ProbeReport({"tools": "many"}),
        WorkloadHealth(
            None,
            "ProbeFailed",
            "its tools could not be discovered: the probe's report does not have the expected format",
        ),
        id="a report of another shape",
    ),
    pytest.param(
        ProbeReport(report(**MANY)), WorkloadHealth(True, "Discovered", "256 tools"), id="as many tools as are kept"
    ),
    pytest.param(
        ProbeReport(report(**MANY, another="1")),
        WorkloadHealth(False, "TooManyTools", f"the server offers 257 tools, {TOO_MANY}"),
        id="one tool too many",
    ),
    pytest.param(
        ProbeReport({**report(**MANY), "offered": 900}),
        WorkloadHealth(False, "TooManyTools", f"the server offers 900 tools, {TOO_MANY}"),
        id="more tools than a report can hold",
    ),
]


@pytest.mark.parametrize(("answer", "health"), ANSWERS)
def test_discovery_health_follows_the_probe_result(viewed, answer, health):
    server = viewed()
    status = {key: value for key, value in discovery_status(server, "q", answer).items() if value is not None}
    assert discovery_health(replace(server, status=status)) == health


def test_discovery_failure_keeps_the_pinned_tools(viewed):
    server = viewed(
        policy={"pin": PIN}, status={**report(PIN, a="1"), "pinned": {"digest": PIN, "tools": tools(a="1")}}
    )
    assert discovery_status(server, "q", ProbeFailure("Refused", "gone")) == {
        "discovery": {"question": "q", "generation": 1, "failure": {"reason": "Refused", "message": "gone"}},
        "pinned": {"digest": PIN, "tools": tools(a="1")},
    }


# The schedule of probes.


def test_probe_schedule_backs_off_after_failures():
    """A success is probed again after the interval, and failures sooner, with growing delays."""
    now = [1000.0]
    schedule = ProbeSchedule(every=3600, clock=lambda: now[0], jitter=lambda: 1.0)
    schedule.record_result("a", failure="")
    now[0] += 3599
    assert not schedule.is_due("a", failed=False)
    now[0] += 2
    assert schedule.is_due("a", failed=False)
    for pause in (30, 60, 120, 240, 300, 300):
        schedule.record_result("a", failure="Refused")
        now[0] += pause - 1
        assert not schedule.is_due("a", failed=True)
        now[0] += 2
        assert schedule.is_due("a", failed=True)
    for pause in (30, 60, 60):
        schedule.record_result("b", failure="Unavailable")
        assert schedule.seconds_until_due("b") == pause
    short = ProbeSchedule(every=20, clock=lambda: now[0], jitter=lambda: 1.0)
    short.record_result("a", failure="Refused")
    assert short.seconds_until_due("a") == 20, "no delay exceeds the interval"


def test_probe_schedule_spreads_probes_after_a_restart():
    now = [0.0]
    jitter = iter([0.1, 0.9])
    schedule = ProbeSchedule(every=1000, clock=lambda: now[0], jitter=lambda: next(jitter))
    assert (schedule.is_due("a", failed=False), schedule.is_due("b", failed=False)) == (False, False)
    now[0] = 500
    assert (schedule.is_due("a", failed=False), schedule.is_due("b", failed=False)) == (True, False)


# The reconcile loop.


async def looked_at(world, api, server: str = "weather", **answer):
    """End the only running probe with a result."""
    await world.settle()
    (probe,) = api.probes(server)
    api.end_pod(probe, **(answer or {"says": json.dumps(report(forecast="sha256:1"))}))
    await world.settle()


def credentials(objects):
    return objects.secret("weather", bearer="eA==", tenant="eA==")


async def test_mcp_server_is_probed_once_and_status_lists_its_tools(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote())
    await world.start()
    await looked_at(world, api)
    status = api.find("McpServer", "weather")["status"]
    assert status["serverInfo"] == {"name": "weather", "version": "1.2", "protocolVersion": "2025-06-18"}
    assert (status["tools"], status["toolsDigest"]) == (tools(forecast="sha256:1"), PIN)
    assert world.conditions("McpServer", "weather")["Ready"][0] == "True"
    assert api.probes("weather") == []
    assert api.all("NetworkPolicy") == []
    assert len(api.gets) == 1, "only the log is read"


async def test_mcp_server_status_replaces_lone_surrogates(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote())
    await world.start()
    await looked_at(world, api, says=json.dumps(report(**{"fore\ud800cast": "sha256:1"})))
    (tool,) = api.find("McpServer", "weather")["status"]["tools"]
    assert tool["name"] == "fore\ufffdcast"
    api.writes.clear()
    world.manager.queue.add(("McpServer", "shop", "weather"))
    await world.settle()
    assert api.writes == [], "the stored status equals the probe's result"


async def test_restart_repeats_no_probe_regardless_of_its_result(world, api, objects, remote, make_world):
    api.put(credentials(objects))
    api.put(remote())
    api.put({**remote(), "metadata": {**remote()["metadata"], "name": "silent", "uid": "uid-silent"}})
    await world.start()
    await world.settle()
    for server in ("weather", "silent"):
        (probe,) = api.probes(server)
        api.end_pod(probe, **({"says": json.dumps(report())} if server == "weather" else {"refuses": "silence"}))
    await world.until(lambda: not api.probes("weather") and not api.probes("silent") and not api.all("NetworkPolicy"))
    await world.stop()
    before = api.versions()
    api.writes.clear(), api.gets.clear()
    another = make_world(api)
    await another.start()
    await another.until(lambda: another.manager.queue.depth == 0)
    await another.stop()
    assert (api.writes, api.gets, api.versions()) == ([], [], before)
    assert another.conditions("McpServer", "silent")["Available"] == ("False", "Unreachable", "silence")


async def test_equal_probe_result_leaves_the_status_unchanged(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote())
    await world.start()
    await looked_at(world, api)
    before = api.find("McpServer", "weather")["status"]
    api.writes.clear()
    world.seconds += 4400
    world.manager.queue.add(("McpServer", "shop", "weather"))
    await looked_at(world, api)
    assert api.find("McpServer", "weather")["status"] == before
    assert [write.split()[:2] for write in api.writes] == [
        ["apply", "NetworkPolicy"],
        ["apply", "Pod"],
        ["status", "McpServer"],  # checks that the server still exists
        ["delete", "Pod"],
        ["delete", "NetworkPolicy"],
    ]


REASONS = [
    pytest.param(
        lambda api, objects, remote: api.put(remote(url="https://other.example.com/sse")), id="its spec changed"
    ),
    pytest.param(
        lambda api, objects, remote: api.put(objects.secret("weather", bearer="eQ==", tenant="eA==")),
        id="its credentials changed",
    ),
]


@pytest.mark.parametrize("change", REASONS)
async def test_mcp_server_is_probed_again_after_a_relevant_change(world, api, objects, remote, change):
    api.put(credentials(objects))
    api.put(remote())
    await world.start()
    await looked_at(world, api)
    change(api, objects, remote)
    await looked_at(world, api, says=json.dumps(report(OTHER, forecast="sha256:2")))
    assert api.find("McpServer", "weather")["status"]["toolsDigest"] == OTHER


async def test_workload_server_is_probed_for_each_ready_pod(world, api, objects):
    api.put(objects.server())
    await world.start()
    await world.settle()
    assert api.probes("tools") == []
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.MCP_SERVER_LABEL: "tools"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "shop", "labels": labels}}
    api.put(pod)
    api.roll_out("tools-mcp")
    await looked_at(world, api, "tools")
    first = api.find("McpServer", "tools")["status"]["discovery"]["question"]
    api.remove("Pod", "one")
    api.put({**pod, "metadata": {**pod["metadata"], "name": "two"}})
    await looked_at(world, api, "tools")
    assert api.find("McpServer", "tools")["status"]["discovery"]["question"] != first
    assert world.conditions("McpServer", "tools")["Ready"][0] == "True"


async def test_workload_server_is_probed_again_after_old_pod_ends(world, api, objects):
    """While an old pod terminates, it may have answered the probe, so the probe is repeated."""
    api.put(objects.server())
    await world.start()
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.MCP_SERVER_LABEL: "tools"}
    one, two = (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "labels": labels}}
        for name in ("one", "two")
    )
    api.put({**one, "metadata": {**one["metadata"], "deletionTimestamp": "2026-03-01T12:00:00Z"}})
    api.put(two)
    await world.settle()
    api.roll_out("tools-mcp")
    await looked_at(world, api, "tools")
    api.remove("Pod", "one")
    await looked_at(world, api, "tools", says=json.dumps(report(OTHER, forecast="sha256:2")))
    assert api.find("McpServer", "tools")["status"]["toolsDigest"] == OTHER


async def test_unreachable_mcp_server_reports_why_and_is_retried(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote())
    await world.start()
    await world.settle()
    (probe,) = api.probes("weather")
    api.end_pod(probe, refuses="fleetwright-agent: the server answers 401 Unauthorized")
    await world.until(lambda: not api.probes("weather"))
    assert world.conditions("McpServer", "weather")["Available"] == (
        "False",
        "Unreachable",
        "the server answers 401 Unauthorized",
    )
    world.manager.queue.add(("McpServer", "shop", "weather"))
    await world.until(lambda: world.manager.queue.depth == 0)
    assert api.probes("weather") == [], "no probe before the delay has passed"
    world.seconds += 40
    world.manager.queue.add(("McpServer", "shop", "weather"))
    await world.until(lambda: api.probes("weather") != [])
    api.end_pod(probe, says=json.dumps(report()))
    await world.until(lambda: world.conditions("McpServer", "weather")["Ready"][0] == "True")


MISSING = [
    pytest.param([], "SecretNotFound", "Secret 'weather' does not exist", id="a Secret that is not there"),
    pytest.param(
        ["other"],
        "SecretKeyNotFound",
        "Secret 'weather' has no key 'bearer'; it has: other",
        id="a key that is not there",
    ),
]


@pytest.mark.parametrize(("keys", "reason", "says"), MISSING)
async def test_missing_credentials_block_the_server_and_its_agents(world, api, objects, remote, keys, reason, says):
    if keys:
        api.put(objects.secret("weather", **dict.fromkeys(keys, "eA==")))
    api.put(remote())
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.until(lambda: "ReferencesResolved" in world.conditions("McpServer", "weather"))
    for kind, name in (("McpServer", "weather"), ("Agent", "poet")):
        condition = world.conditions(kind, name)["ReferencesResolved"]
        assert condition[:2] == ("False", reason)
        assert says in condition[2]
    assert not api.has("Deployment", "poet")
    api.put(credentials(objects))
    await world.settle()
    assert api.has("Deployment", "poet")


async def test_rotated_server_credential_refreshes_running_agents(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote())
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop", "labels": labels}})
    await world.start()
    await world.settle()
    before = api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION]
    revision = api.find("Deployment", "poet")["spec"]
    api.put(objects.secret("weather", bearer="eQ==", tenant="eA=="))
    await world.settle()
    assert api.find("Pod", "p")["metadata"]["annotations"][names.REFRESH_ANNOTATION] != before
    assert api.find("Deployment", "poet")["spec"] == revision


async def test_pin_mismatch_blocks_agents_until_list_or_pin_matches(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote(policy={"pin": PIN}))
    api.put(objects.agent(mcpServers=[{"name": "weather"}]))
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "McpServerPending"
    assert not api.has("Deployment", "poet")
    await looked_at(world, api)
    assert _pinned(api) == {"forecast": "sha256:1"}
    running = api.find("Deployment", "poet")["spec"]

    world.seconds += 4400
    world.manager.queue.add(("McpServer", "shop", "weather"))
    await looked_at(world, api, says=json.dumps(report(OTHER, forecast="sha256:2", alarm="sha256:3")))
    for kind, name, condition in (("McpServer", "weather", "Available"), ("Agent", "poet", "ReferencesResolved")):
        status, _, message = world.conditions(kind, name)[condition]
        assert status == "False"
        assert "added alarm; changed forecast" in message
    assert world.conditions("McpServer", "weather")["Available"][1] == "ToolsChanged"
    assert world.conditions("Agent", "poet")["ReferencesResolved"][1] == "McpServerToolsChanged"
    assert api.find("Deployment", "poet")["spec"] == running, "the last revision continues"

    api.put(remote(policy={"pin": OTHER}))
    await world.settle()
    assert api.probes("weather") == [], "a new pin needs no new probe"
    assert world.conditions("McpServer", "weather")["Ready"][0] == "True"
    assert _pinned(api) == {"forecast": "sha256:2", "alarm": "sha256:3"}
    assert api.find("Deployment", "poet")["spec"] != running


def _pinned(api) -> dict:
    volumes = api.find("Deployment", "poet")["spec"]["template"]["spec"]["volumes"]
    name = next(volume["configMap"]["name"] for volume in volumes if volume["name"] == "config")
    (server,) = json.loads(api.find("ConfigMap", name)["data"]["agent.json"])["mcpServers"]
    return server["pinned"]


async def test_disjoint_tool_allow_lists_are_refused(world, api, objects, remote):
    api.put(credentials(objects))
    api.put(remote(policy={"allow": ["forecast"]}))
    api.put(objects.agent(mcpServers=[{"name": "weather", "tools": {"allow": ["alarm"]}}]))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["ReferencesResolved"]
    assert (status, reason) == ("False", "NoToolAllowed")
    assert "McpServer 'weather' allow no tool in common" in message


async def test_stdio_server_without_a_command_is_refused(world, api, objects):
    api.put(objects.server(transport="Stdio"))
    await world.start()
    await world.settle()
    assert world.conditions("McpServer", "tools")["Accepted"][:2] == ("False", "CommandMissing")


async def test_mcp_server_converges_after_a_fault_at_any_write(api, objects, remote, make_world):
    reference = None
    for number in range(-1, 6):
        faulty = type(api)()
        faulty.fault = lambda now, what, at=number: ApiError("broken", code=500) if now == at else None
        faulty.put(credentials(objects))
        faulty.put(remote())
        world = make_world(faulty)
        await world.start()
        await world.until(lambda at=faulty: at.probes("weather") != [])
        (probe,) = faulty.probes("weather")
        faulty.end_pod(probe, says=json.dumps(report(forecast="sha256:1")))
        await world.settle()
        await world.stop()
        reference = reference or faulty.snapshot()
        assert faulty.snapshot() == reference, f"after a fault at write {number}"
    assert not [key for key in reference if key.startswith(("Pod", "NetworkPolicy"))]


def test_server_probe_receives_the_denied_ranges(viewed, settings):
    ranges = tuple(map(ipaddress.ip_network, ("9.9.9.0/24", "2a00::/16")))
    with_denied_api_server = replace(
        settings, denied_ranges=(*ranges, ipaddress.ip_network("8.8.8.8/32")), stated_ranges=ranges
    )
    (container,) = server_probe(viewed(), about=[], services={}, settings=with_denied_api_server).pod["containers"]
    words = container["command"][2:-1]
    assert words == ["mcp", "--denied", "9.9.9.0/24", "--denied", "2a00::/16"]


def test_server_probe_name_depends_on_its_owner(viewed, settings):
    server = viewed()
    probe = server_probe(server, about=[], services={}, settings=settings)
    other = replace(probe, owner=replace(probe.owner, namespace="else", uid="else"))
    assert probe.name != other.name


def test_agent_config_omits_the_tool_list_of_a_replaced_pin(objects, viewed, settings):
    """The agent may be reconciled before the server, whose status then still has the list of the old pin."""
    status = {**report(OTHER, forecast="sha256:2"), "pinned": {"digest": PIN, "tools": tools(forecast="sha256:1")}}
    server = viewed(policy={"pin": OTHER}, status=status)
    parts = AgentParts(agent=objects.agent_view(mcpServers=[{"name": "weather"}]), servers={"weather": server})
    (entry,) = agent_children(parts, settings).rendered.config["mcpServers"]
    assert entry["pinned"] == {"forecast": "sha256:2"}
