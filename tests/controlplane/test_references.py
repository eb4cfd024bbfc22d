"""Missing, invalid or refused references: a condition names them, and the running agent continues."""

import hashlib
import json

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS

MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}
KEY = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"api-key": "x"}}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "llm"},
    "spec": {"selector": {"app": "llm"}, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
}


def skill(text: str) -> dict:
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Skill",
        "metadata": {"name": "haiku"},
        "spec": {"source": {"inline": {"files": {"SKILL.md": text}}}},
    }


GOOD_SKILL = skill("---\nname: haiku\ndescription: Writes haiku.\n---\nThree lines.")
BAD_SKILL = skill("---\nname: haiku\n---\nNo description.")
SERVER = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "McpServer",
    "metadata": {"name": "tools"},
    "spec": {"remote": {"url": "https://tools.example.com/mcp"}},
}
DANGLING = [
    pytest.param(
        {"model": {**MODEL, "apiKeySecretRef": {"name": "key"}}}, "Secret 'key'", KEY, id="the key's Secret is missing"
    ),
    pytest.param(
        {"model": {**MODEL, "apiKeySecretRef": {"name": "key", "key": "other"}}},
        "names key 'other' of Secret 'key', which has: api-key",
        {**KEY, "stringData": {"other": "x"}},
        id="the Secret has another key",
    ),
    pytest.param({"skills": [{"name": "haiku"}]}, "Skill 'haiku' does not exist", GOOD_SKILL, id="a missing skill"),
    pytest.param({"skills": [{"name": "haiku"}]}, "description must be", GOOD_SKILL, id="a skill that is no skill"),
    pytest.param({"mcpServers": [{"name": "tools"}]}, "McpServer 'tools'", SERVER, id="a missing MCP server"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "http://llm/v1"}}, "Service 'llm' does not exist", SERVICE, id="no service"
    ),
]
PRESENT = {"the Secret has another key": KEY, "a skill that is no skill": BAD_SKILL}


@pytest.mark.parametrize(("spec", "says", "remedy"), DANGLING)
def test_dangling_reference_is_named_and_resolves_when_created(space, operator, request, spec, says, remedy):
    if present := PRESENT.get(request.node.callspec.id):
        space.apply(present)
    space.agent("poet", **spec)
    space.wait("Agent", "poet", "ReferencesResolved", "False", says=says)
    assert space.condition("Agent", "poet", "Programmed")["message"] == "blocked by ReferencesResolved"
    assert space.find("Deployment", "poet") is None
    space.apply(remedy)
    space.wait("Agent", "poet", "Programmed", "True")
    assert space.get("Deployment", "poet")


def test_broken_reference_leaves_the_running_agent_unchanged(space, kubelet, operator):
    space.apply(KEY)
    space.agent("poet", model={**MODEL, "apiKeySecretRef": {"name": "key"}})
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    before = space.get_operator_fields("Deployment", "poet")
    space.admin.delete("Secret", space.name, "key")
    space.wait("Agent", "poet", "ReferencesResolved", "False", says="Secret 'key'")
    assert "keeps serving" in space.condition("Agent", "poet", "Available")["message"]
    assert space.get_operator_fields("Deployment", "poet") == before


def test_peer_token_is_shared_and_removed_with_the_peer(space, kubelet, operator):
    """Both peers share one token, and removing the peer removes it."""
    space.agent("helper")
    space.agent("poet", peers=[{"name": "helper"}])
    file = f"peer.{space.name}.helper"
    token = space.eventually(lambda: space.secret("poet-auth").get(file), "the caller's token")

    def callers() -> list[str]:
        return [caller["name"] for caller in _callers(space)]

    space.eventually(lambda: f"{space.name}/poet" in callers(), "the callee's digest")
    assert token not in json.dumps(_callers(space))
    space.eventually(lambda: _may_call(space) == ["poet"], "the way is open")

    space.agent("poet")
    space.eventually(lambda: file not in space.secret("poet-auth"), "the token is gone")
    space.eventually(lambda: callers() == ["default"], "the digest is gone")
    space.eventually(lambda: _may_call(space) == [], "the way is closed")


def test_callee_that_withdraws_consent_revokes_the_peer_token(space, kubelet, operator):
    """A callee revokes a caller's access although the caller still lists it as a peer."""
    space.agent("helper")
    space.agent("poet", peers=[{"name": "helper"}])
    pod = kubelet.run("helper")
    space.eventually(lambda: "poet" in json.dumps(_callers(space)), "the edge")
    annotation = "fleetwright.dev/refresh"
    first = space.eventually(lambda: space.get("Pod", pod)["metadata"]["annotations"].get(annotation), "refreshed")

    space.agent("helper", allowedCallers={"agents": []})
    space.wait("Agent", "poet", "ReferencesResolved", "False", says="does not allow 'poet'")
    space.eventually(lambda: "poet" not in json.dumps(_callers(space)), "the digest is gone")
    space.eventually(lambda: f"peer.{space.name}.helper" not in space.secret("poet-auth"), "the token is gone")
    space.eventually(lambda: space.get("Pod", pod)["metadata"]["annotations"][annotation] != first, "the pod is told")


def test_remote_server_names_a_missing_cluster_service(space, operator):
    space.apply({**SERVER, "spec": {"remote": {"url": "http://nowhere.elsewhere.svc/mcp"}}})
    space.wait("McpServer", "tools", "ReferencesResolved", "False", says="Service 'nowhere' does not exist")


@pytest.mark.parametrize(
    ("state", "last", "reason", "says"),
    [
        pytest.param(
            {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}},
            None,
            "ImagePull",
            "cannot be pulled: ImagePullBackOff: not found",
            id="an image that cannot be pulled",
        ),
        pytest.param(
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            {"terminated": {"exitCode": 3, "reason": "Error", "message": "cannot read agent.json"}},
            "CrashLoop",
            "exit code 3 (Error): cannot read agent.json",
            id="a crash with its last words",
        ),
        pytest.param(
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "key" not found'}},
            None,
            "ContainerConfig",
            'secret "key" not found',
            id="a container that lacks a key",
        ),
        pytest.param(
            {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            None,
            "StartupProbeFailed",
            "image 'img' did not answer GET /healthz on port 7871 within 180 seconds",
            id="an image without the runtime contract",
        ),
        pytest.param(
            {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            {
                "terminated": {
                    "exitCode": 137,
                    "reason": "Error",
                    "startedAt": "2026-01-01T00:00:00Z",
                    "finishedAt": "2026-01-01T00:03:30Z",
                }
            },
            "StartupProbeFailed",
            "did not answer GET /healthz on port 7871",
            id="the same image after the kubelet has ended it",
        ),
    ],
)
def test_available_names_the_cause_that_a_kubelet_reports(space, kubelet, operator, state, last, reason, says):
    space.agent("poet")
    kubelet.fail("poet", state, last)
    found = space.wait("Agent", "poet", "Available", "False", says=says)
    assert found["reason"] == reason


def test_available_names_a_quota(space, operator):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    space.apply(quota)
    space.agent("poet")
    found = space.wait("Agent", "poet", "Available", "False", says="exceeded quota")
    assert found["reason"] == "Quota"


def _callers(space) -> list[dict]:
    """Return the callers whom the helper accepts. It has none until the operator has written its Secret."""
    return json.loads(space.secret("helper-auth").get("callers.json", '{"callers": []}'))["callers"]


def _may_call(space) -> list[str]:
    """Return the agents that the callee's policy admits by name."""
    policy = space.get("NetworkPolicy", "helper-ingress")
    sources = [source["podSelector"] for rule in policy["spec"]["ingress"] for source in rule["from"]]
    return [name for source in sources for part in source.get("matchExpressions", ()) for name in part["values"]]


def test_peer_in_another_namespace_requires_consent(space, other_space, operator):
    space.agent("helper")
    peer = {"name": "helper", "namespace": space.name}
    other_space.agent("poet", peers=[peer])
    says = f"'{space.name}/helper' does not allow '{other_space.name}/poet'"
    other_space.wait("Agent", "poet", "ReferencesResolved", "False", says=says)

    space.agent("helper", allowedCallers={"agents": [{"name": "poet", "namespace": other_space.name}]})
    other_space.wait("Agent", "poet", "Programmed", "True")
    token = other_space.secret("poet-auth")[f"peer.{space.name}.helper"]
    digest = hashlib.sha256(token.encode()).hexdigest()

    def accepted() -> bool:
        return digest in {caller["sha256"] for caller in _callers(space)}

    space.eventually(accepted, "the callee knows the caller's token")
    space.agent("helper")
    space.eventually(lambda: not accepted(), "the right is gone")


def test_blocked_agent_admits_a_new_caller_and_reports_it(space, operator):
    space.agent("helper")
    space.wait("Agent", "helper", "Programmed", "True")
    ways_out = space.get("NetworkPolicy", "helper")["spec"]
    space.agent("helper", skills=[{"name": "nobody-wrote-it"}])
    space.wait("Agent", "helper", "ReferencesResolved", "False", says="nobody-wrote-it")
    space.agent("poet", peers=[{"name": "helper"}])
    space.wait("Agent", "poet", "Programmed", "True")
    space.eventually(lambda: _may_call(space) == ["poet"], "the network follows")
    way = f"Agent poet of namespace {space.name}, port 7870"
    space.eventually(
        lambda: way in [way["from"] for way in space.get("Agent", "helper")["status"]["ingress"]], "it is told"
    )
    assert space.get("NetworkPolicy", "helper")["spec"] == ways_out
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    settled = operator.wait_for_settled_writes()
    assert operator.wait_for_settled_writes() == settled, "nothing is written twice"


def test_namespace_selector_allows_callers_by_label(space, other_space, operator):
    chosen = {"from": "Selector", "selector": {"matchLabels": {"guest": space.name}}}
    space.agent("helper", allowedCallers={"namespaces": chosen})
    other_space.agent("poet", peers=[{"name": "helper", "namespace": space.name}])
    other_space.wait("Agent", "poet", "ReferencesResolved", "False")
    other_space.admin.merge("Namespace", "", other_space.name, {"metadata": {"labels": {"guest": space.name}}})
    other_space.wait("Agent", "poet", "Programmed", "True")


def test_skill_selector_mounts_labelled_skills(space, operator):
    document = "---\nname: haiku\ndescription: Writes haiku.\n---\nThree lines.\n"
    skill = {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Skill",
        "metadata": {"name": "haiku", "labels": {"tone": "calm"}},
        "spec": {"source": {"inline": {"files": {"SKILL.md": document}}}},
    }
    space.agent("poet", skillSelector={"matchLabels": {"tone": "calm"}})
    space.wait("Agent", "poet", "Programmed", "True")
    space.apply(skill)

    def mounted() -> bool:
        return [found["name"] for found in space.get("Agent", "poet")["status"]["skills"]] == ["haiku"]

    space.eventually(mounted, "the skill is found")
    space.eventually(lambda: space.get("Skill", "haiku")["status"].get("usedBy") == 1, "its user is counted")


def test_instruction_and_model_files_are_mounted_but_never_read(space, operator):
    space.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompts"}, "data": {"desk": "Secret plans."}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "gateway"}, "stringData": {"tenant": "blue"}},
    )
    header = {"name": "X-Tenant", "secretKeyRef": {"name": "gateway", "key": "tenant"}}
    body = {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "poet"},
        "spec": {
            "instructionsFrom": {"configMapKeyRef": {"name": "prompts", "key": "desk"}},
            "model": {
                "name": "m",
                "baseURL": "https://models.example.com/v1",
                "headersFrom": [header],
                "proxyURL": "http://192.0.2.7:3128",
            },
        },
    }
    space.apply(body)
    space.wait("Agent", "poet", "Programmed", "True")
    agent = space.get("Agent", "poet")
    config = space.get("ConfigMap", f"poet-{agent['status']['revision']}")["data"]["agent.json"]
    assert json.loads(config)["instructionsFile"] == "configmaps/prompts/desk"
    assert "Secret plans" not in config
    assert "blue" not in config
    assert {"to": "192.0.2.7:3128", "why": "model m, through its proxy"} in agent["status"]["egress"]


def test_events_report_failure_recovery_and_repetitions(space, operator):
    """Events report what failed, its recovery, and the number of repetitions."""

    def told(reason: str) -> list[dict]:
        events = [event for event in space.list_objects("Event") if event["involvedObject"]["kind"] == "Agent"]
        return [event for event in events if event["reason"] == reason]

    for round_ in range(1, 4):
        if round_ == 3:
            operator.restart()
        space.agent("poet", peers=[{"name": "helper"}])
        space.eventually(lambda times=round_: [e["count"] for e in told("PeerNotFound")] == [times], "it is told, once")
        space.agent("poet")
        space.wait("Agent", "poet", "ReferencesResolved", "True")
    (warning,) = told("PeerNotFound")
    assert warning["type"] == "Warning"
    assert "'helper' does not exist" in warning["message"]
    assert warning["involvedObject"]["uid"] == space.get("Agent", "poet")["metadata"]["uid"]
    space.eventually(lambda: [event["type"] for event in told("Resolved")] == ["Normal"], "that it came right")
