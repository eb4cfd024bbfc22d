"""A real API server accepts the additions of a spec to pod and policy. A condition reports those that weaken them."""

import pytest
from tests.support.controlplane.administrator import LONG_SECONDS, object_head

MAIL = [{"to": {"ipBlock": {"cidr": cidr}}, "ports": [{"port": 25}], "why": "mail"} for cidr in ("0.0.0.0/0", "::/0")]
EQUIPPED = {
    "nodeSelector": {"pool": "agents"},
    "volumes": [{"name": "cache", "emptyDir": {}}],
    "containers": [
        {
            "name": "agent",
            "env": [{"name": "TZ", "value": "UTC"}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        },
        {"name": "side", "image": "registry.example.com/side:1"},
    ],
}


@pytest.fixture
def widened(space, operator) -> None:
    """An agent with a patched pod and additions to its policies."""
    web = {"from": {"namespaceSelector": {"matchLabels": {"team": "web"}}}}
    model = {"name": "m", "baseURL": "https://models.example.com/v1"}
    network = {"ingress": [web], "egress": MAIL}
    space.agent("poet", model=model, network=network, podTemplate={"spec": EQUIPPED})
    space.wait("Agent", "poet", "Programmed", "True")


def pod_of(space) -> dict:
    return space.get("Deployment", "poet")["spec"]["template"]["spec"]


def test_network_addition_keeps_the_forbidden_ranges_excepted(space, widened):
    """An egress rule added by the spec is written without the ranges that no agent may reach."""
    blocks = {
        (rule["ports"][0]["port"], peer["ipBlock"]["cidr"]): peer["ipBlock"]["except"]
        for rule in space.get("NetworkPolicy", "poet")["spec"]["egress"]
        for peer in rule["to"]
        if "ipBlock" in peer
    }
    assert set(blocks) == {(443, "0.0.0.0/0"), (443, "2000::/3"), (25, "0.0.0.0/0"), (25, "::/0")}
    assert blocks[25, "0.0.0.0/0"] == ["169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"]
    assert {"10.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32"} <= set(blocks[443, "0.0.0.0/0"])
    assert "2001:db8::/32" in blocks[443, "2000::/3"]
    assert {"to": "0.0.0.0/0, TCP 25", "why": "mail"} in space.get("Agent", "poet")["status"]["egress"]


def test_pod_template_patch_is_applied_once_and_removed_again(space, operator, widened):
    pod = pod_of(space)
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "agents"}
    assert [container["name"] for container in pod["containers"]] == ["agent", "side"]
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    settled = operator.wait_for_settled_writes()
    version = space.get("Deployment", "poet")["metadata"]["resourceVersion"]
    assert operator.wait_for_settled_writes() == settled, "nothing is written twice"
    assert space.get("Deployment", "poet")["metadata"]["resourceVersion"] == version

    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    pod = pod_of(space)
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert [container["name"] for container in pod["containers"]] == ["agent"]
    assert "cache" not in {volume["name"] for volume in pod["volumes"]}


HELM_OUTPUT = {
    "metadata": {"annotations": {}, "labels": {}},
    "spec": {
        "affinity": {},
        "hostAliases": [],
        "imagePullSecrets": [],
        "initContainers": [],
        "nodeSelector": {},
        "tolerations": [],
        "topologySpreadConstraints": [],
        "volumes": [],
        "containers": [
            {
                "name": "agent",
                "env": [],
                "envFrom": [],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {}},
                "volumeMounts": [],
            },
            {
                "name": "side",
                "image": "registry.example.com/side:1",
                "args": [],
                "env": [{"name": "EMPTY", "value": ""}],
                "livenessProbe": {"httpGet": {"path": "/", "port": 9002}},
                "ports": [{"containerPort": 9002}, {"containerPort": 9003, "name": "more"}],
                "resources": {},
            },
        ],
    },
}
"""A podTemplate as the values of Helm charts usually render it: empty lists and objects, and values of the defaults."""


def test_pod_template_with_empty_lists_and_default_values_is_written_once(space, operator):
    space.agent("poet", podTemplate=HELM_OUTPUT)
    space.wait("Agent", "poet", "Programmed", "True")
    space.apply(
        {
            **object_head("McpServer", "tools"),
            "spec": {"workload": {"image": "registry.example.com/tools:1", "podTemplate": _for_container("server")}},
        }
    )
    space.wait("McpServer", "tools", "Programmed", "True")
    space.eventually(space.has_no_deleted_namespaces, "what former tests left is gone", promised=LONG_SECONDS)
    settled = operator.wait_for_settled_writes()
    for number in range(3):
        for name in ("poet", "tools-mcp"):
            space.admin.merge(
                "Deployment", space.name, name, {"metadata": {"annotations": {"example.com/touched": str(number)}}}
            )
        assert operator.wait_for_settled_writes() == settled, "nothing is written again"


def _for_container(name: str) -> dict:
    first, *others = HELM_OUTPUT["spec"]["containers"]
    return {**HELM_OUTPUT, "spec": {**HELM_OUTPUT["spec"], "containers": [{**first, "name": name}, *others]}}


def test_ip_block_exception_equal_to_its_cidr_is_not_accepted(space, operator, refusal):
    """An exception that covers its whole range is named before Kubernetes refuses it."""
    block = {"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}
    space.agent("poet", network={"egress": [{"to": {"ipBlock": block}, "ports": [{"port": 25}]}]})
    space.wait("Agent", "poet", "Accepted", "False", says="except '10.0.0.0/8' is not inside 10.0.0.0/8")
    egress = [{"to": [{"ipBlock": block}]}]
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "mine"}}
    with pytest.raises(refusal, match="strict subset"):
        space.apply({**policy, "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": egress}})


def test_pod_template_host_network_is_refused_and_pod_unchanged(space, operator):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    before = space.get("Deployment", "poet")["spec"]
    space.agent("poet", podTemplate={"spec": {"hostNetwork": True}})
    space.wait("Agent", "poet", "Accepted", "False", says="spec.podTemplate.spec.hostNetwork cannot be set")
    assert space.get("Deployment", "poet")["spec"] == before
    space.agent("poet")
    space.wait("Agent", "poet", "Accepted", "True")


def test_pod_template_null_annotations_are_not_accepted(space, operator):
    space.agent("poet", podTemplate={"metadata": {"annotations": None}})
    space.wait("Agent", "poet", "Accepted", "False", says="spec.podTemplate.metadata.annotations is null")
    assert space.list_objects("Deployment") == []
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")


def test_pod_template_rejected_by_kubernetes_is_not_retried(space, operator):
    space.agent("poet", podTemplate={"spec": {"tolerations": [{"kee": "gpu"}]}})
    space.wait("Agent", "poet", "Programmed", "False", says="Deployment 'poet' was rejected by the API server")
    operator.wait_for_settled_writes()
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")


@pytest.fixture
def storage_class(space, grows):
    """Create a storage class with these properties, and one volume of it."""
    name = f"{space.name}-class"
    kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}}
    space.admin.apply({**kind, "provisioner": "example.com/nobody", "allowVolumeExpansion": grows})
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "hostPath": {"path": "/nowhere"},
    }
    space.admin.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield name
    for made in ("PersistentVolume", "StorageClass"):
        space.admin.delete(made, "", name)


@pytest.mark.parametrize("grows", [True, False], ids=["its class lets it grow", "its class does not"])
def test_memory_volume_expansion_succeeds_or_reports_why_not(space, operator, storage_class, grows):
    storage = {"size": "1Gi", "storageClassName": storage_class}
    space.agent("poet", memory={"storage": storage})
    space.wait("Agent", "poet", "Programmed", "True")

    def is_bound() -> bool:
        return space.get("PersistentVolumeClaim", "poet-memory")["status"]["phase"] == "Bound"

    space.eventually(is_bound, "the volume is bound", promised=LONG_SECONDS)

    space.agent("poet", memory={"storage": {**storage, "size": "2Gi"}})
    if not grows:
        space.wait("Agent", "poet", "StorageDiffers", "True", says="must support resize")
        space.wait("Agent", "poet", "Programmed", "True")
        space.agent("poet", memory={"storage": storage})
        space.eventually(lambda: _difference(space) == "", "the old size is accepted")
        return
    space.wait("Agent", "poet", "Programmed", "True")
    space.eventually(lambda: _claim(space)["resources"]["requests"] == {"storage": "2Gi"}, "the claim has 2Gi")

    grown = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    space.admin.merge("PersistentVolumeClaim", space.name, "poet-memory", grown)
    space.wait("Agent", "poet", "StorageDiffers", "True", says="and a volume cannot shrink")
    space.agent("poet", memory={"storage": {**storage, "size": "3Gi", "storageClassName": "another"}})
    space.wait("Agent", "poet", "StorageDiffers", "True", says=f"has the class '{storage_class}'")
    space.wait("Agent", "poet", "Programmed", "True")
    settled = operator.wait_for_settled_writes()
    assert operator.wait_for_settled_writes() == settled, "nothing is written twice"
    assert (_claim(space)["storageClassName"], _claim(space)["resources"]["requests"]["storage"]) == (
        storage_class,
        "3Gi",
    )


def _claim(space) -> dict:
    return space.get("PersistentVolumeClaim", "poet-memory")["spec"]


def _difference(space) -> str:
    conditions = space.get("Agent", "poet")["status"]["conditions"]
    return next((each["message"] for each in conditions if each["type"] == "StorageDiffers"), "")


def test_ephemeral_storage_limit_is_set_if_only_cpu_is_given(space, operator):
    side = {"name": "side", "image": "registry.example.com/side:1"}
    space.agent("poet", resources={"limits": {"cpu": "1"}}, podTemplate={"spec": {"containers": [side]}})
    space.wait("Agent", "poet", "Programmed", "True")
    pod = space.get("Deployment", "poet")["spec"]["template"]["spec"]
    limits = {container["name"]: container["resources"]["limits"] for container in pod["containers"]}
    assert limits == {"agent": {"cpu": "1", "ephemeral-storage": "1Gi"}, "side": {"ephemeral-storage": "1Gi"}}
    assert {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}} in pod["volumes"]


def test_pod_template_invalid_quantity_is_refused_by_its_path(space, operator):
    over = {"name": "agent", "resources": {"limits": {"ephemeral-storage": "lots"}}}
    space.agent("poet", podTemplate={"spec": {"containers": [over]}})
    place = "spec.podTemplate.spec.containers[agent].resources.limits.ephemeral-storage must be a quantity"
    space.wait("Agent", "poet", "Accepted", "False", says=place)


def test_volume_claim_that_stays_in_deletion_is_named(space, operator):
    space.agent("poet")
    space.wait("Agent", "poet", "Programmed", "True")
    held = {"metadata": {"finalizers": ["example.com/backup"]}}
    space.admin.merge("PersistentVolumeClaim", space.name, "poet-memory", held)
    space.admin.delete("PersistentVolumeClaim", space.name, "poet-memory")
    space.agent("poet", instructions="Sing.")
    space.wait("Agent", "poet", "Programmed", "False", says="'poet-memory' is being deleted and waits for example.com")

    space.admin.merge("PersistentVolumeClaim", space.name, "poet-memory", {"metadata": {"finalizers": None}})
    space.wait("Agent", "poet", "Programmed", "True")
