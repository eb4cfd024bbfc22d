"""McpServers against a real API server: probes with the chart's rights, tools in status, credentials, and the pin."""

import json
import signal

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS

HEADER = {"name": "Authorization", "secretKeyRef": {"name": "weather", "key": "bearer"}}
PIN, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def server(name: str = "weather", policy: dict | None = None, **spec: object) -> dict:
    remote = {"remote": {"url": "https://weather.example.com/mcp", "headersFrom": [HEADER]}}
    head = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": name}}
    return {**head, "spec": {**(spec or remote), **({"toolPolicy": policy} if policy else {})}}


def secret(**data: str) -> dict:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "weather"}, "stringData": data}


def report(whole: str = PIN, **digests: str) -> str:
    info = {"name": "weather", "version": "1.2", "protocolVersion": "2025-06-18"}
    tools = [{"name": name, "digest": digest} for name, digest in digests.items()]
    return json.dumps({"serverInfo": info, "tools": tools, "toolsDigest": whole})


def no_probes(space) -> bool:
    pods = [body for body in space.list_objects("Pod") if body["metadata"]["labels"].get("fleetwright.dev/probe")]
    policies = [body for body in space.list_objects("NetworkPolicy") if "-probe-" in body["metadata"]["name"]]
    return not pods and not policies


def test_mcp_server_status_lists_tools_and_its_probe_is_removed(space, operator, kubelet):
    space.apply(secret(bearer="b"), server())
    space.wait("McpServer", "weather", "Available", "Unknown", says="its tools are being discovered")
    probe = kubelet.probed("weather", says=report(forecast="sha256:1"))
    space.wait("McpServer", "weather", "Ready", "True")
    status = space.get("McpServer", "weather")["status"]
    assert status["serverInfo"] == {"name": "weather", "version": "1.2", "protocolVersion": "2025-06-18"}
    assert status["tools"] == [{"name": "forecast", "digest": "sha256:1"}]
    space.eventually(lambda: no_probes(space), f"{probe} and its policy are gone")


def test_mcp_server_pod_patch_is_applied_once_or_refused(space, operator):
    """A server's pod patch is written once; a patch that weakens the pod ends in a condition."""
    image = "docker.io/example/tools:1"
    patch = {"spec": {"nodeSelector": {"pool": "tools"}, "containers": [{"name": "side", "image": image}]}}
    pull = [{"name": "registry"}]
    space.apply(server("tools", workload={"image": image, "podTemplate": patch, "imagePullSecrets": pull}))
    space.wait("McpServer", "tools", "Programmed", "True")
    before = space.get("Deployment", "tools-mcp")
    pod = before["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "tools"}
    assert pod["imagePullSecrets"] == pull
    assert [container["name"] for container in pod["containers"]] == ["server", "side"]
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    settled = operator.wait_for_settled_writes()
    assert operator.wait_for_settled_writes() == settled, "nothing is written twice"
    space.apply(server("tools", workload={"image": image, "podTemplate": {"spec": {"hostPID": True}}}))
    says = "spec.workload.podTemplate.spec.hostPID cannot be set"
    space.wait("McpServer", "tools", "Accepted", "False", says=says)
    assert space.get("Deployment", "tools-mcp")["spec"] == before["spec"]


def test_restart_repeats_no_probe_and_writes_nothing(space, operator, kubelet):
    space.apply(secret(bearer="b"), server())
    kubelet.probed("weather", says=report(forecast="sha256:1"))
    space.wait("McpServer", "weather", "Ready", "True")
    space.eventually(lambda: no_probes(space), "the probe is gone")
    space.eventually(space.has_no_deleted_namespaces, "earlier tests are gone", promised=LONG_SECONDS)
    operator.wait_for_settled_writes()
    before = space.versions()
    operator.restart()
    operator.wait_for_settled_writes()
    assert space.versions() == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "told to end"])
def test_probe_result_is_read_by_a_restarted_operator(space, operator, kubelet, how):
    space.apply(secret(bearer="b"), server())
    space.wait("McpServer", "weather", "Available", "Unknown", says="its tools are being discovered")
    operator.stop(how)
    kubelet.probed("weather", says=report(forecast="sha256:1"))
    operator.start()
    space.wait("McpServer", "weather", "Ready", "True")
    space.eventually(lambda: no_probes(space), "the probe is gone")


def test_mcp_server_reports_the_error_of_its_probe(space, operator, kubelet):
    space.apply(secret(bearer="b"), server())
    kubelet.probed("weather", refuses="fleetwright-agent: the server answers 401 Unauthorized")
    condition = space.wait("McpServer", "weather", "Available", "False", says="the server answers 401 Unauthorized")
    assert condition["reason"] == "Unreachable"


def test_missing_server_credentials_block_the_agent(space, operator, kubelet):
    space.apply(server())
    space.agent("poet", mcpServers=[{"name": "weather"}])
    space.wait("McpServer", "weather", "ReferencesResolved", "False", says="Secret 'weather' does not exist")
    space.wait("Agent", "poet", "ReferencesResolved", "False", says="Secret 'weather' does not exist")
    space.apply(secret(other="b"))
    space.wait("McpServer", "weather", "ReferencesResolved", "False", says="has no key 'bearer'; it has: other")
    space.apply(secret(bearer="b"))
    space.wait("Agent", "poet", "Programmed", "True")
    pod = space.get("Deployment", "poet")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["/etc/fleetwright/secrets/weather"]["readOnly"] is True
    kubelet.probed("weather", says=report())
    space.wait("McpServer", "weather", "Ready", "True")


def test_pinned_tool_list_change_blocks_the_agent_by_tool_name(space, operator, kubelet):
    space.apply(secret(bearer="b"), server(policy={"pin": PIN}))
    space.agent("poet", mcpServers=[{"name": "weather"}])
    space.wait("Agent", "poet", "ReferencesResolved", "False", says="its tools are not discovered yet")
    kubelet.probed("weather", says=report(PIN, forecast="sha256:1"))
    space.wait("Agent", "poet", "Programmed", "True")
    revision = space.get("Agent", "poet")["status"]["revision"]

    space.apply(secret(bearer="c"))
    kubelet.probed("weather", says=report(OTHER, forecast="sha256:2", alarm="sha256:3"))
    says = "added alarm; changed forecast"
    assert space.wait("McpServer", "weather", "Available", "False", says=says)["reason"] == "ToolsChanged"
    held = space.wait("Agent", "poet", "ReferencesResolved", "False", says=says)
    assert held["reason"] == "McpServerToolsChanged"
    assert space.get("Deployment", "poet")["spec"]["template"]["metadata"]["annotations"] == {
        "fleetwright.dev/revision": revision
    }

    space.apply(server(policy={"pin": OTHER}))
    space.wait("Agent", "poet", "Programmed", "True")
    assert space.get("Agent", "poet")["status"]["revision"] != revision


def test_deleted_mcp_server_removes_its_probe(space, operator):
    space.apply(secret(bearer="b"), server())
    space.wait("McpServer", "weather", "Available", "Unknown", says="its tools are being discovered")
    space.admin.delete("McpServer", space.name, "weather")
    space.eventually(lambda: no_probes(space), "the probe is collected", promised=LONG_SECONDS)


def test_stdio_server_restarts_when_its_environment_changes(space, operator):
    workload = {"image": "img", "transport": "Stdio", "command": ["x"], "envFrom": [{"secretRef": {"name": "weather"}}]}
    space.apply(server("clock", workload=workload))
    space.wait("McpServer", "clock", "ReferencesResolved", "False", says="Secret 'weather', which does not exist")
    space.apply(secret(zone="UTC"))
    space.wait("McpServer", "clock", "Programmed", "True")
    template = space.get("Deployment", "clock-mcp")["spec"]["template"]
    assert template["spec"]["containers"][0]["command"][:2] == ["fleetwright-agent", "bridge"]
    space.apply(secret(zone="CET"))
    space.eventually(
        lambda: space.get("Deployment", "clock-mcp")["spec"]["template"]["metadata"] != template["metadata"],
        "the template is another one",
    )


REFUSED = [
    pytest.param({"workload": {"image": "i", "transport": "Stdio"}}, "workload.command is required", id="no command"),
    pytest.param({"workload": {"image": "i", "transport": "SSE"}}, "Unsupported value", id="a transport of others"),
    pytest.param(
        {"workload": {"image": "i", "envFrom": [{"prefix": "A"}]}},
        "envFrom[] needs exactly one of secretRef and configMapRef",
        id="an environment from nowhere",
    ),
    pytest.param(
        {"remote": {"url": "https://x/mcp", "headersFrom": [{**HEADER, "name": "Content-Length"}]}},
        "is a header that the protocol sets",
        id="a header of the protocol",
    ),
    pytest.param(
        {"remote": {"url": "https://x/mcp", "headersFrom": [{**HEADER, "name": "A B"}]}},
        "must be the name of an HTTP header",
        id="a header with a space",
    ),
    pytest.param(
        {"remote": {"url": "https://x/mcp", "caSecretRef": {"name": "ca", "key": "..data"}}},
        "caSecretRef.key may contain letters",
        id="a key that climbs",
    ),
    *(
        pytest.param(
            {"remote": {"url": "https://x/mcp", "proxyURL": proxy}},
            "remote.proxyURL must be the http or https address of a proxy without user and path",
            id=f"the proxy {proxy}",
        )
        for proxy in ("socks5://proxy:1080", "proxy:3128", "http://u:p@proxy:3128", "http://proxy:3128/a", "http://a b")
    ),
    pytest.param(
        {"remote": {"url": "https://x/mcp"}, "toolPolicy": {"pin": "abc"}},
        "must be a status.toolsDigest",
        id="no digest",
    ),
    pytest.param({"remote": {"url": "https://x/mcp"}, "toolPolicy": {"allow": []}}, "at least 1", id="an empty list"),
]


@pytest.mark.parametrize(("spec", "says"), REFUSED)
def test_invalid_mcp_server_is_refused_by_field(space, refusal, spec, says):
    body = server(**spec)
    with pytest.raises(refusal) as refused:
        space.create(body)
    assert says in refused.value.message
