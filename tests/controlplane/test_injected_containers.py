"""Probe pods to which the cluster's admission adds a container that never ends."""

import json

import pytest
from tests.support.controlplane.administrator import PATHS

_GROUP = "admissionregistration.k8s.io"


@pytest.fixture
def injecting(space):
    """Return the namespace, in which a MutatingAdmissionPolicy adds a sidecar before the containers of each pod."""
    name = f"inject-{space.name}"
    sidecar = (
        'JSONPatch{op: "add", path: "/spec/containers/0", value: Object.spec.containers{name: "mesh", image: "mesh:1",'
        " securityContext: Object.spec.containers.securityContext{allowPrivilegeEscalation: false, runAsNonRoot: true,"
        ' capabilities: Object.spec.containers.securityContext.capabilities{drop: ["ALL"]}}}}'
    )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{sidecar}]"}}],
    }
    chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space.name}}}
    specs = {
        "MutatingAdmissionPolicy": policy,
        "MutatingAdmissionPolicyBinding": {"policyName": name, "matchResources": chosen},
    }
    for kind, spec in specs.items():
        space.admin.apply({"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    yield space
    for kind in specs:
        space.admin.delete(kind, "", name)


def mesh_is_added(space) -> bool:
    """Return whether the policy is in force, which takes the API server a moment."""
    restricted = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "c",
        "image": "img",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {"securityContext": restricted, "containers": [container]}
    path = f"{PATHS['Pod'].format(space.name)}?dryRun=All"
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"}, "spec": spec}
    return len(space.admin.request("POST", path, pod)["spec"]["containers"]) == 2


def test_injected_container_does_not_delay_the_result_of_a_probe(injecting, kubelet, operator):
    injecting.eventually(lambda: mesh_is_added(injecting), "the policy adds a container")
    head = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "weather"}}
    injecting.apply({**head, "spec": {"remote": {"url": "https://weather.example.com/mcp"}}})
    found = {"serverInfo": {"name": "weather", "version": "1"}, "tools": [], "toolsDigest": "sha256:" + "a" * 64}
    kubelet.probed("weather", says=json.dumps(found), beside="mesh")
    injecting.wait("McpServer", "weather", "Ready", "True")
