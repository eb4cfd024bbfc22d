"""One agent from its creation to its deletion, on a real API server with real controllers."""

import json
import time
from pathlib import Path

import pytest
import yaml
from tests.support.controlplane.administrator import LONG_SECONDS

from fleetwright_operator.manager.warning_delay import SECONDS as WARNING_SECONDS

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
DIGEST = "sha256:" + "a" * 64
TOOLS = json.dumps(
    {
        "serverInfo": {"name": "orders", "version": "1", "protocolVersion": "2025-06-18"},
        "tools": [{"name": name, "digest": DIGEST} for name in ("look_up_order", "refund_order")],
        "toolsDigest": DIGEST,
    }
)


def skill(name: str, text: str = "Write three lines.") -> dict:
    document = f"---\nname: {name}\ndescription: Writes {name}.\n---\n{text}\n"
    files = {"SKILL.md": document, "references/form.md": "five seven five"}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Skill",
        "metadata": {"name": name},
        "spec": {"source": {"inline": {"files": files}}},
    }


def test_agent_is_ready_with_its_pod_and_reports_its_url(space, kubelet, operator):
    space.agent("poet", description="Writes poems.")
    space.wait("Agent", "poet", "Available", "False", says="waiting for the pod")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")

    status = space.get("Agent", "poet")["status"]
    assert status["url"] == f"http://poet.{space.name}.svc.cluster.local"
    assert status["clients"] == [{"name": "default", "secret": "poet-client-default"}]
    assert {"to": "192.0.2.1:80", "why": "model m"} in status["egress"]
    config_map = space.get("ConfigMap", f"poet-{status['revision']}")
    assert config_map["immutable"] is True
    assert json.loads(config_map["data"]["agent.json"])["revision"] == status["revision"]
    conditions = [condition["type"] for condition in status["conditions"]]
    assert conditions == [
        "Accepted",
        "ReferencesResolved",
        "Programmed",
        "Available",
        "Ready",
        "ModelUnpriced",
        "ModelAssumed",
    ]


def test_ready_follows_the_current_revision_not_the_old_pod(space, kubelet, operator):
    space.agent("poet")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    served = space.get("Agent", "poet")
    first = served["status"]["revision"]

    space.agent("poet", instructions="Write better.")
    space.wait("Agent", "poet", "Ready", "False", says=f"revision {first} keeps serving")
    kubelet.prove("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    second = space.get("Agent", "poet")["status"]["revision"]
    assert second != first
    template = space.get("Deployment", "poet")["spec"]["template"]
    assert template["metadata"]["annotations"]["fleetwright.dev/revision"] == second
    versions = space.admin.versions("Agent", space.name, since=served["metadata"]["resourceVersion"])
    told = [_ready(body) for body in versions if body["status"]["observedGeneration"] == 2]
    assert told == sorted(told), "the agent is Ready once its new pod is, and not earlier"
    assert set(told) == {False, True}


def test_paused_rollout_is_named_until_it_is_resumed(space, kubelet, operator):
    space.agent("poet")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    space.admin.merge("Deployment", space.name, "poet", {"spec": {"paused": True}})
    space.agent("poet", instructions="Write better.")
    kubelet.prove("poet")
    space.wait("Agent", "poet", "Ready", "False", says="kubectl rollout resume deployment/poet")
    space.admin.merge("Deployment", space.name, "poet", {"spec": {"paused": None}})
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")


def _ready(agent: dict) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in agent["status"]["conditions"])


def test_quickstart_reasons_are_one_word_without_warnings(space, kubelet, operator):
    """Every reason in a list is one word, and the first apply emits no warning."""
    for path in sorted(QUICKSTART.glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            if body["kind"] != "Deployment":  # the model server has no kubelet here
                space.apply(body)
    server = kubelet.run("orders", label="fleetwright.dev/mcpserver")
    assert server
    kubelet.discover("orders", says=TOOLS)
    for name in ("support", "warehouse"):
        space.wait("Agent", name, "Programmed", "True")
        rows = {row["Name"]: row["Reason"] for row in space.admin.table("Agent", space.name)}
        assert rows[name] == "RollingOut"
        kubelet.run(name)
        space.wait("Agent", name, "Ready", "True")
    kinds = ("Agent", "Skill", "McpServer")

    def list_reasons():
        return {(kind, row["Name"]): row["Reason"] for kind in kinds for row in space.admin.table(kind, space.name)}

    space.eventually(
        lambda: {*list_reasons().values()} == {"Ready"},
        "every reason is Ready",
        promised=LONG_SECONDS,
        shown=list_reasons,
    )
    time.sleep(WARNING_SECONDS + 1)
    ours = [
        event for event in space.list_objects("Event") if event["source"].get("component") == "fleetwright-operator"
    ]
    assert [event["message"] for event in ours if event["type"] != "Normal"] == []
    assert {event["reason"] for event in ours} == {"Ready"}


def test_failing_revision_leaves_the_old_deployment_in_place(space, kubelet, operator):
    space.agent("poet")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    serving = space.get("Deployment", "poet")["spec"]

    space.agent("poet", instructions="Write better.")
    kubelet.prove("poet", code=2, says="fleetwright-agent: the runtime cannot be built: ImportError\n")
    space.wait("Agent", "poet", "Programmed", "False", says="cannot start: the runtime cannot be built: ImportError")
    assert space.get("Deployment", "poet")["spec"] == serving
    pod = next(pod for pod in space.list_objects("Pod") if "-probe-" in pod["metadata"]["name"])
    assert pod["spec"]["restartPolicy"] == "Never"

    space.agent("poet")
    space.wait("Agent", "poet", "Ready", "True")
    space.eventually(
        lambda: "-probe-" not in str([pod["metadata"]["name"] for pod in space.list_objects("Pod")]), "it is gone"
    )
    assert space.get("Deployment", "poet")["spec"] == serving


def test_sidecar_runs_in_the_preflight_and_ends_with_it(space, kubelet, operator):
    space.agent("poet")
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    http = {"httpGet": {"path": "/", "port": 8080}}
    shipper = {"name": "shipper", "image": "img", "ports": [{"containerPort": 8080}], "readinessProbe": http}
    resources = {"limits": {"memory": "32Mi", "cpu": "10m"}}
    labels = {"sidecar.istio.io/inject": "false"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{**shipper, "resources": resources}]}}
    space.agent("poet", podTemplate=template, resources=resources)
    kubelet.prove("poet", code=137)
    space.wait("Agent", "poet", "Programmed", "False", says="cannot start: the container ended with exit code 137")
    (pod,) = [pod for pod in space.list_objects("Pod") if "-probe-" in pod["metadata"]["name"]]
    (sidecar,) = pod["spec"]["initContainers"]
    assert (sidecar["name"], sidecar["restartPolicy"]) == ("shipper", "Always")
    assert pod["metadata"]["labels"].items() >= labels.items()

    space.admin.delete("Pod", space.name, pod["metadata"]["name"])
    space.wait("Agent", "poet", "Programmed", "False", says="its pod was deleted; it is tried again")
    kubelet.prove("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    containers = space.get("Deployment", "poet")["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["agent", "shipper"]


def test_rollout_waits_until_the_previous_agent_is_ready(space, kubelet, alone):
    alone("one-by-one", rollouts=1)
    pods = {}
    for name in ("first", "second"):
        space.agent(name)
        pods[name] = kubelet.run(name)
        space.wait("Agent", name, "Ready", "True")
    for name, says in (("first", "is being tried"), ("second", "waits for other rollouts to finish: 1")):
        space.agent(name, instructions="Write better.")
        space.wait("Agent", name, "Programmed", "False", says=says)
    kubelet.prove("first")
    space.eventually(lambda: space.find("Pod", pods["first"]) is None, "the pod that served is gone")
    space.wait("Agent", "second", "Programmed", "False", says="waits for other rollouts")
    kubelet.run("first")
    space.wait("Agent", "first", "Ready", "True")
    kubelet.prove("second")
    space.eventually(lambda: space.find("Pod", pods["second"]) is None, "the pod that served is gone")
    kubelet.run("second")
    space.wait("Agent", "second", "Ready", "True")


def test_revision_config_maps_keep_the_last_three(space, operator):
    revisions = []
    for number in range(5):
        space.agent("poet", instructions=f"Write {number}.")
        space.wait("Agent", "poet", "Programmed", "True")
        revisions.append(space.get("Agent", "poet")["status"]["revision"])
    wanted = {f"poet-{revision}" for revision in revisions[-3:]}

    def kept() -> bool:
        names = {body["metadata"]["name"] for body in space.list_objects("ConfigMap")}
        return {name for name in names if name.startswith("poet-")} == {*wanted, "poet-card"}

    space.eventually(kept, f"only {wanted} are left")


def test_deleted_agent_keeps_its_volume_for_a_new_agent(space, operator):
    """A deleted agent leaves its volume, and a new agent of that name uses it."""
    space.agent("poet", memory={"storage": {"size": "200Mi"}})
    space.wait("Agent", "poet", "Programmed", "True")
    claim = space.get("PersistentVolumeClaim", "poet-memory")
    space.admin.delete("Agent", space.name, "poet")

    def gone() -> bool:
        kinds = ("Deployment", "NetworkPolicy", "Secret", "Service", "Pod")
        left = [body for kind in kinds for body in space.list_objects(kind)]
        maps = [body["metadata"]["name"] for body in space.list_objects("ConfigMap")]
        accounts = [body["metadata"]["name"] for body in space.list_objects("ServiceAccount")]
        return not left and maps == ["kube-root-ca.crt"] and accounts == ["default"]

    space.eventually(gone, "nothing but the volume is left", promised=LONG_SECONDS)
    assert space.get("PersistentVolumeClaim", "poet-memory")["metadata"]["uid"] == claim["metadata"]["uid"]

    space.eventually(lambda: space.agent("poet", memory={"storage": {"size": "200Mi"}}) or True, "applied")
    space.wait("Agent", "poet", "Programmed", "True")
    assert space.get("PersistentVolumeClaim", "poet-memory")["metadata"]["uid"] == claim["metadata"]["uid"]


def test_volume_without_retain_is_deleted_with_its_agent(space, operator):
    space.agent("poet", memory={"storage": {"retain": False}})
    space.wait("Agent", "poet", "Programmed", "True")
    space.admin.delete("Agent", space.name, "poet")
    space.eventually(lambda: not _claims_in_use(space), "the volume claim is gone", promised=LONG_SECONDS)


def _claims_in_use(space) -> list[dict]:
    # The controller of this finalizer does not run here. A volume in deletion counts as deleted.
    return [
        claim for claim in space.list_objects("PersistentVolumeClaim") if "deletionTimestamp" not in claim["metadata"]
    ]


@pytest.mark.parametrize("source", ["inline", "configMap"])
def test_skill_change_rolls_out_the_agents_that_use_it(space, operator, source):
    files = skill("haiku")["spec"]["source"]["inline"]["files"]
    keys = {path.replace("/", ".."): text for path, text in files.items()}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "files"}, "data": keys}
    body = skill("haiku")
    if source == "configMap":
        body["spec"]["source"] = {"configMap": {"name": "files"}}
        space.apply(config_map)
    space.apply(body)
    space.agent("poet", skills=[{"name": "haiku"}])
    space.wait("Agent", "poet", "Programmed", "True")
    before = space.get("Agent", "poet")["status"]

    if source == "configMap":
        space.apply({**config_map, "data": {**keys, "references..form.md": "seven five seven"}})
    else:
        body["spec"]["source"]["inline"]["files"]["references/form.md"] = "seven five seven"
        space.apply(body)

    def rolled() -> dict | None:
        status = space.get("Agent", "poet")["status"]
        return status if status["revision"] != before["revision"] else None

    after = space.eventually(rolled, "a new revision")
    assert after["skills"][0]["digest"] == space.get("Skill", "haiku")["status"]["digest"]
    assert space.get("Skill", "haiku")["status"]["usedBy"] == 1
    snapshot = space.get("Skill", "haiku")["status"]["snapshot"]
    volumes = space.get("Deployment", "poet")["spec"]["template"]["spec"]["volumes"]
    mounted = next(volume["configMap"] for volume in volumes if volume["name"] == "skill-haiku")
    assert mounted["name"] == snapshot
    assert {"key": "references..form.md", "path": "references/form.md"} in mounted["items"]


def test_model_key_secret_is_never_read_and_refreshes_the_pod(space, kubelet, operator):
    """The operator never reads the model's key; its rotation changes only an annotation of the pod."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"api-key": "one"}}
    space.apply(secret)
    model = {"name": "m", "baseURL": "http://192.0.2.1/v1", "apiKeySecretRef": {"name": "key"}}
    space.agent("poet", model=model)
    pod = kubelet.run("poet")
    annotation = "fleetwright.dev/refresh"
    first = space.eventually(lambda: space.get("Pod", pod)["metadata"]["annotations"].get(annotation), "refreshed")
    revision = space.get("Agent", "poet")["status"]["revision"]

    space.apply({**secret, "stringData": {"api-key": "two"}})
    space.eventually(
        lambda: space.get("Pod", pod)["metadata"]["annotations"][annotation] != first, "the pod is told to look again"
    )
    assert space.get("Agent", "poet")["status"]["revision"] == revision
