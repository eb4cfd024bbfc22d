"""The operator writes only what is necessary, restores damaged children, and leaves foreign objects unchanged."""

import copy

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS

SERVER = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "McpServer",
    "metadata": {"name": "tools"},
    "spec": {"workload": {"image": "docker.io/example/tools:1", "args": ["--port", "$(PORT)"]}},
}


def test_restart_and_reapply_change_no_resource_version(space, kubelet, operator):
    space.apply(SERVER)
    space.agent("helper")
    space.agent("poet", peers=[{"name": "helper"}], mcpServers=[{"name": "tools"}])
    kubelet.run("poet")
    kubelet.run("helper")
    kubelet.run("tools", label="fleetwright.dev/mcpserver")
    kubelet.probed("tools", says='{"serverInfo": {}, "tools": [], "toolsDigest": "sha256:0"}')
    space.wait("Agent", "poet", "Ready", "True")
    space.wait("Agent", "helper", "Ready", "True")
    space.wait("McpServer", "tools", "Ready", "True")
    space.eventually(space.has_no_deleted_namespaces, "nobody else is left", promised=LONG_SECONDS)
    operator.wait_for_settled_writes()
    before = space.versions()

    space.agent("poet", peers=[{"name": "helper"}], mcpServers=[{"name": "tools"}])
    operator.restart()
    assert operator.wait_for_settled_writes(events=True) == {}, "a restart causes no write"
    assert space.versions() == before


EDITS = [
    pytest.param(
        "Service",
        {"spec": {"ports": [{"name": "a2a", "port": 80, "targetPort": 81, "protocol": "TCP"}]}},
        id="a service that leads to another port",
    ),
    pytest.param("Service", {"metadata": {"labels": None}}, id="a service without its labels"),
    pytest.param("Deployment", {"spec": {"replicas": 3}}, id="a deployment scaled by hand"),
    pytest.param(
        "Deployment", {"spec": {"strategy": {"type": "RollingUpdate"}}}, id="a deployment of another strategy"
    ),
    pytest.param(
        "Deployment",
        {"spec": {"template": {"spec": {"automountServiceAccountToken": True}}}},
        id="a deployment that hands out cluster credentials",
    ),
    pytest.param("NetworkPolicy", {"spec": {"egress": [{}]}}, id="a policy opened to everywhere"),
    pytest.param("ServiceAccount", {"automountServiceAccountToken": True}, id="an account that mounts its token"),
    pytest.param("Service", {"metadata": {"ownerReferences": None}}, id="a service whose owner was stripped"),
]


@pytest.mark.parametrize(("kind", "patch"), EDITS)
def test_edited_child_is_restored(space, operator, kind, patch):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    operator.wait_for_settled_writes()
    whole = space.get(kind, "poet")
    space.admin.merge(kind, space.name, "poet", patch)

    def restored() -> bool:
        return _state(space.get(kind, "poet")) == _state(whole)

    space.eventually(restored, f"{kind} as before")
    space.eventually(lambda: _repairs(space) == [("Reverted", "poet")], "an Event", shown=lambda: _repairs(space))


def _repairs(space) -> list[tuple[str, str]]:
    """Return reason and object of the Events about repairs."""
    reasons = {"Reverted", "Recreated", "VolumeLost"}
    found = [event for event in space.list_objects("Event") if event["reason"] in reasons]
    return [(event["reason"], event["involvedObject"]["name"]) for event in found]


MANAGED_BY = "app.kubernetes.io/managed-by"
LABELLED = ("Service", "Deployment", "NetworkPolicy", "ServiceAccount", "Secret", "ConfigMap", "PersistentVolumeClaim")


@pytest.mark.parametrize(
    "labels", [pytest.param({MANAGED_BY: None}, id="the one that we look for"), pytest.param(None, id="all of them")]
)
@pytest.mark.parametrize("kind", LABELLED)
def test_stripped_labels_are_restored_on_every_kind_of_child(space, operator, kind, labels):
    """O8: the watch, which selects by label, reports the child as deleted."""
    goes = {"storage": {"retain": False}}
    space.agent("helper", memory=goes)
    space.agent("poet", peers=[{"name": "helper"}], memory=goes)
    space.wait("Agent", "poet", "Programmed", "True")
    operator.wait_for_settled_writes()
    before = {child["metadata"]["name"]: _state(child) for child in _ours(space, kind)}
    assert before
    for name in before:
        space.admin.merge(kind, space.name, name, {"metadata": {"labels": labels}})

    def restored() -> bool:
        return {child["metadata"]["name"]: _state(child) for child in _ours(space, kind)} == before

    space.eventually(restored, f"{kind} as before, the tokens too")
    assert space.wait("Agent", "poet", "Programmed", "True")


def test_retained_volume_without_labels_is_a_named_conflict(space, operator):
    """O8: a retained volume has no owner reference. Without its labels its agent is unknown."""
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    operator.wait_for_settled_writes()
    space.admin.merge("PersistentVolumeClaim", space.name, "poet-memory", {"metadata": {"labels": {MANAGED_BY: None}}})
    space.wait("Agent", "poet", "Conflict", "True", says="PersistentVolumeClaim 'poet-memory'")
    labels = {MANAGED_BY: "fleetwright"}
    space.admin.merge("PersistentVolumeClaim", space.name, "poet-memory", {"metadata": {"labels": labels}})
    space.wait("Agent", "poet", "Programmed", "True")


def _ours(space, kind: str) -> list[dict]:
    return [
        child
        for child in space.list_objects(kind)
        if child["metadata"].get("labels", {}).get(MANAGED_BY) == "fleetwright"
    ]


@pytest.mark.parametrize("kind", ["Service", "Deployment", "NetworkPolicy", "ServiceAccount", "Secret", "ConfigMap"])
def test_deleted_child_is_restored(space, operator, kind):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    revision = space.get("Agent", "poet")["status"]["revision"]
    name = {"Secret": "poet-auth", "ConfigMap": f"poet-{revision}"}.get(kind, "poet")
    _delete_and_wait(space, kind, name)
    space.eventually(lambda: _repairs(space) == [("Recreated", "poet")], "an Event", shown=lambda: _repairs(space))


def test_lost_memory_volume_has_an_event(space, operator):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    assert _repairs(space) == []
    _delete_and_wait(space, "PersistentVolumeClaim", "poet-memory")
    space.eventually(lambda: _repairs(space) == [("VolumeLost", "poet")], "an Event", shown=lambda: _repairs(space))


def _delete_and_wait(space, kind: str, name: str) -> None:
    """Delete a child, and return once the operator has created another one."""
    uid = space.get(kind, name)["metadata"]["uid"]
    space.admin.delete(kind, space.name, name)

    def restored() -> bool:
        found = space.find(kind, name)
        return found is not None and found["metadata"]["uid"] != uid

    space.eventually(restored, f"another {kind} {name}")


def test_foreign_service_is_a_named_conflict_and_unchanged(space, operator):
    """No Deployment is made for a Service that is known to be foreign. Otherwise both are created concurrently."""
    space.agent("marker")
    space.wait("Agent", "marker", "Programmed", "True")
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "poet"},
        "spec": {"selector": {"app": "other"}, "ports": [{"port": 1234, "protocol": "TCP"}]},
    }
    space.apply(foreign)
    # One watch reports all Services in order. So the operator has seen the foreign one when it restores another.
    _delete_and_wait(space, "Service", "marker")
    version = space.get("Service", "poet")["metadata"]["resourceVersion"]
    space.agent("poet")
    space.wait("Agent", "poet", "Conflict", "True", says="Service 'poet'")
    assert space.condition("Agent", "poet", "Ready")["status"] == "False"
    assert space.get("Service", "poet")["metadata"]["resourceVersion"] == version
    assert space.find("Deployment", "poet") is None

    space.admin.delete("Service", space.name, "poet")
    space.wait("Agent", "poet", "Programmed", "True")
    assert not space.condition("Agent", "poet", "Conflict")


def test_foreign_secret_keeps_its_content(space, operator):
    space.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "poet-auth"}, "stringData": {"mine": "x"}})
    space.agent("poet")
    space.wait("Agent", "poet", "Conflict", "True", says="Secret 'poet-auth'")
    assert space.secret("poet-auth") == {"mine": "x"}


def test_remote_server_removes_the_children_of_its_workload(space, operator):
    space.apply(SERVER)
    space.wait("McpServer", "tools", "Programmed", "True")
    assert space.get("Deployment", "tools-mcp")
    space.apply({**SERVER, "spec": {"remote": {"url": "https://tools.example.com/mcp"}}})
    space.eventually(
        lambda: not space.list_objects("Deployment") and not space.list_objects("Service"), "the children are gone"
    )
    assert space.wait("McpServer", "tools", "Programmed", "True")
    assert space.get("McpServer", "tools")["status"]["url"] == "https://tools.example.com/mcp"


def _state(body: dict) -> dict:
    whole = copy.deepcopy(body)
    for key in ("managedFields", "resourceVersion", "generation"):
        whole["metadata"].pop(key, None)
    for key in ("status",):
        whole.pop(key, None)
    annotations = whole["metadata"].get("annotations", {})
    annotations.pop("deployment.kubernetes.io/revision", None)
    return whole
