"""Helper pods in namespaces with a LimitRange and a quota, which the plugins of a real API server enforce."""

import json

import pytest

OWN = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
RANGES = [
    {
        "type": "Container",
        "min": {"cpu": "200m", "memory": "200Mi"},
        "max": {"memory": "2Gi"},
        "maxLimitRequestRatio": {"cpu": "2", "memory": "2"},
    },
    {"type": "Pod", "min": {"memory": "256Mi"}},
]
QUOTA = {"limits.cpu": "20", "requests.cpu": "20", "limits.memory": "40Gi", "requests.ephemeral-storage": "40Gi"}
WORKSPACE = {
    "image": "img",
    "storage": {"ephemeral": True},
    "network": {"egress": [{"to": {"host": "registry.example.com"}, "ports": [{"port": 443}]}]},
}
SOURCE = {"git": {"url": "https://git.example.com/shop.git"}}


@pytest.fixture
def limited(space):
    """Return the namespace with rules that every pod of ours would break, if its resources did not follow them."""
    space.apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "rules"}, "spec": {"limits": RANGES}},
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "rules"}, "spec": {"hard": QUOTA}},
    )
    # The API server refuses pods until the quota controller has counted the namespace.
    space.eventually(lambda: space.get("ResourceQuota", "rules").get("status", {}).get("hard"), "the quota is counted")
    return space


def pods_of(space, owner, component):
    """Return the pods of a component that have the label `fleetwright.dev/<owner>`, given as (key, value)."""
    wanted = {f"fleetwright.dev/{owner[0]}": owner[1], "app.kubernetes.io/component": component}
    return [pod for pod in space.list_objects("Pod") if wanted.items() <= pod["metadata"]["labels"].items()]


def test_later_revision_passes_its_preflight(limited, kubelet, operator):
    limited.agent("poet", resources=OWN)
    kubelet.run("poet")
    limited.wait("Agent", "poet", "Ready", "True")
    first = limited.get("Agent", "poet")["status"]["revision"]
    limited.agent("poet", resources=OWN, instructions="Write better.")
    kubelet.prove("poet")
    limited.wait("Agent", "poet", "Programmed", "True")
    kubelet.run("poet")
    limited.eventually(
        lambda: limited.get("Agent", "poet")["status"]["revision"] != first, "the next revision is written"
    )
    limited.wait("Agent", "poet", "Ready", "True")


def test_probe_of_a_server_is_admitted(limited, kubelet, operator):
    head = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": "weather"}}
    limited.apply({**head, "spec": {"remote": {"url": "https://weather.example.com/mcp"}}})
    found = {"serverInfo": {"name": "weather", "version": "1"}, "tools": [], "toolsDigest": "sha256:" + "a" * 64}
    kubelet.probed("weather", says=json.dumps(found))
    limited.wait("McpServer", "weather", "Ready", "True")


def test_clone_workspace_and_egress_proxy_are_admitted(limited, operator):
    limited.agent("cloner", resources=OWN, workspace={"image": "img", "source": SOURCE})
    limited.eventually(
        lambda: pods_of(limited, ("workspace", "cloner"), "workspace-clone"), "the source is being cloned"
    )
    limited.agent("coder", resources=OWN, workspace=WORKSPACE)
    for component in ("workspace", "workspace-egress"):
        (pod,) = limited.eventually(
            lambda component=component: pods_of(limited, ("workspace", "coder"), component),
            f"a pod with the component {component}",
        )
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}


def test_changed_rules_apply_to_the_next_helper_pod(space, kubelet, operator):
    space.agent("poet", resources=OWN)
    kubelet.run("poet")
    space.wait("Agent", "poet", "Ready", "True")
    space.agent("poet", resources=OWN, instructions="Write better.")
    (earlier,) = space.eventually(
        lambda: pods_of(space, ("probed-agent", "poet"), "probe"), "the preflight of the next revision"
    )
    space.apply({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "rules"}, "spec": {"limits": RANGES}})

    def is_replaced():
        names = [pod["metadata"]["name"] for pod in pods_of(space, ("probed-agent", "poet"), "probe")]
        return len(names) == 1 and names != [earlier["metadata"]["name"]]

    space.eventually(is_replaced, "the preflight runs with requests that the rules allow")
