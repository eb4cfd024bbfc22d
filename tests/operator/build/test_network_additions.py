"""The additions of a spec to the derived policy and to the pod, which must not weaken them."""

from dataclasses import replace

import pytest

from fleetwright_operator.build.deployment import agent_deployment, agent_template
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.network_additions import added_egress_rules, added_ingress_peers, range_problems
from fleetwright_operator.build.pod.pod_security import container_security
from fleetwright_operator.build.pod.pod_template import template_problems
from fleetwright_operator.settings import Settings


def egress(objects, to, **rule):
    return objects.agent_view(network={"egress": [{"to": to, "ports": [{"port": 443}], **rule}]}).spec


ROUTES = [
    pytest.param({"ipBlock": {"cidr": "203.0.113.0/24"}}, "203.0.113.0/24, TCP 443", id="a range"),
    pytest.param({"podSelector": {}}, "all pods, TCP 443", id="every pod of the namespace"),
    pytest.param(
        {"podSelector": {"matchLabels": {"b": "2", "a": "1"}}, "namespaceSelector": {}},
        "pods a=1,b=2 of namespaces of any name, TCP 443",
        id="pods by label anywhere",
    ),
    pytest.param(
        {"namespaceSelector": {"matchLabels": {"team": "x"}}},
        "all pods of namespaces team=x, TCP 443",
        id="all pods of some namespaces",
    ),
]


@pytest.mark.parametrize(("to", "wanted"), ROUTES)
def test_added_egress_rule_is_described_in_the_status(objects, to, wanted):
    (route,) = added_egress_rules(egress(objects, to), Settings())
    assert (route.to, route.why) == (wanted, "spec.network.egress")


BLOCKS = [
    pytest.param(
        {"cidr": "0.0.0.0/0"},
        {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32"]},
        id="everything but metadata",
    ),
    pytest.param(
        {"cidr": "::/0", "except": ["fd00::/8"]},
        {"cidr": "::/0", "except": ["fd00::/8", "fe80::/10", "64:ff9b::a9fe:0/112"]},
        id="everything of version 6 but metadata, of which an exception covers some",
    ),
    pytest.param({"cidr": "10.0.0.0/8"}, {"cidr": "10.0.0.0/8"}, id="a private range that is named"),
    pytest.param(
        {"cidr": "169.254.169.254/32"}, {"cidr": "169.254.169.254/32"}, id="the metadata address where it is named"
    ),
    pytest.param(
        {"cidr": "168.0.0.0/7", "except": ["169.0.0.0/8", "168.0.0.0/8"]},
        {"cidr": "168.0.0.0/7", "except": ["169.0.0.0/8", "168.0.0.0/8"]},
        id="an exception that covers it already",
    ),
    pytest.param({"cidr": "2001:db8::/32"}, {"cidr": "2001:db8::/32"}, id="a range of the other family"),
]


@pytest.mark.parametrize(("block", "wanted"), BLOCKS)
def test_added_range_excludes_metadata_unless_declared(objects, block, wanted):
    (route,) = added_egress_rules(egress(objects, {"ipBlock": block}), Settings())
    assert route.peers == ({"ipBlock": wanted},)


def test_added_ingress_peers_reach_the_a2a_port_only(objects):
    agent = objects.agent_view(network={"ingress": [{"from": {"podSelector": {"matchLabels": {"app": "web"}}}}]})
    (way,) = added_ingress_peers(agent.spec)
    assert (way.of, way.port) == ("pods app=web", 7870)
    assert list(added_ingress_peers(objects.agent_view().spec)) == []


BAD_RANGES = [
    pytest.param({"cidr": "203.0.113.7/24"}, "is not an IP range", id="bits below the mask"),
    pytest.param({"cidr": "example.com"}, "is not an IP range", id="a name"),
    pytest.param({"cidr": "10.0.0.0/8", "except": ["x"]}, "is not an IP range", id="an exception that is none"),
    pytest.param({"cidr": "10.0.0.0/8", "except": ["11.0.0.0/24"]}, "is not inside", id="an exception outside"),
    pytest.param({"cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"]}, "is not inside", id="all of it excepted"),
    pytest.param({"cidr": "10.0.0.0/8", "except": ["::/64"]}, "is not inside", id="one of the other family"),
]


@pytest.mark.parametrize(("block", "says"), BAD_RANGES)
def test_range_problems_names_an_invalid_range(objects, block, says):
    (problem,) = range_problems(egress(objects, {"ipBlock": block}), Settings())
    assert problem.startswith("spec.network.egress[0].to.ipBlock")
    assert says in problem


def template(objects, settings):
    agent = objects.agent_view()
    return agent_template(owner_of(agent), agent.spec, revision="r", snapshots={}, servers={}, settings=settings)


def container(**fields):
    return {"spec": {"containers": [{"name": "side", "image": "i", **fields}]}}


ALLOWED = {"team": "x", "prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}


def projected(source):
    return {"spec": {"volumes": [{"name": "v", "projected": {"sources": [source]}}]}}


TOKEN = "a token for the Kubernetes API"
ELSEWHERE = {"host": "169.254.169.254", "port": 80}
REFUSED = [
    pytest.param([], "must be an object", id="a list"),
    pytest.param({"kind": "Pod"}, "podTemplate.kind cannot be set", id="another object"),
    pytest.param({"spec": {"hostNetwork": True}}, "spec.hostNetwork cannot be set", id="the node's network"),
    pytest.param({"spec": {"hostPID": True}}, "spec.hostPID cannot be set", id="the node's processes"),
    pytest.param({"spec": {"securityContext": {}}}, "spec.securityContext cannot be set", id="the pod's security"),
    pytest.param(
        {"spec": {"automountServiceAccountToken": True}}, "automountServiceAccountToken cannot be set", id="a token"
    ),
    pytest.param({"spec": {"serviceAccountName": "admin"}}, "serviceAccountName cannot be set", id="another identity"),
    pytest.param({"spec": {"restartPolicy": "Never"}}, "restartPolicy cannot be set", id="another life"),
    pytest.param(container(securityContext={"privileged": True}), "securityContext cannot be set", id="privilege"),
    pytest.param(container(ports=[{"hostPort": 80}]), "must not set hostPort", id="a port of the node"),
    pytest.param(
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
        "hostPath is not a volume type",
        id="the node's disk",
    ),
    pytest.param(projected({"serviceAccountToken": {"path": "t"}}), TOKEN, id="a token by projection"),
    *(
        pytest.param(projected({"serviceAccountToken": {"path": "t", "audience": audience}}), TOKEN, id=audience)
        for audience in (
            "https://kubernetes.default.svc",
            "https://kubernetes.default.svc.cluster.local",
            "https://kubernetes.default.svc:443/",
            "kubernetes.default.svc",
            "HTTPS://Kubernetes.Default",
            "k3s",
            "api",
            "https://issuer.example.com/cluster-1",
            "https://Issuer.example.com/cluster-1/",
            "custom",
        )
    ),
    pytest.param(
        projected({"podCertificate": {"signerName": "kubernetes.io/kube-apiserver-client-pod"}}),
        "volumes[v].projected.sources has podCertificate",
        id="a client certificate by projection",
    ),
    *(
        pytest.param(
            container(**calls), f"[side].{place}.host would make the node call", id=f"the node's call: {place}"
        )
        for place, calls in {
            "livenessProbe.httpGet": {"livenessProbe": {"httpGet": ELSEWHERE}},
            "readinessProbe.tcpSocket": {"readinessProbe": {"tcpSocket": ELSEWHERE}},
            "startupProbe.httpGet": {"startupProbe": {"httpGet": ELSEWHERE}},
            "lifecycle.postStart.httpGet": {"lifecycle": {"postStart": {"httpGet": ELSEWHERE}}},
            "lifecycle.preStop.tcpSocket": {"lifecycle": {"preStop": {"tcpSocket": ELSEWHERE}}},
        }.items()
    ),
    *(
        pytest.param(
            {"metadata": {"annotations": {key: "unconfined"}}},
            f"annotations[{key}] is not among the annotations that this installation allows",
            id=key,
        )
        for key in (
            "container.apparmor.security.beta.kubernetes.io/agent",
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/agent",
            "io.kubernetes.cri-o.Devices",
            "io.kubernetes.cri-o.userns-mode",
            "k8s.v1.cni.cncf.io/networks",
            "cdi.k8s.io/gpu",
            "io.katacontainers.config.hypervisor.path",
            "sidecar.istio.io/bootstrapOverride",
        )
    ),
    *(
        pytest.param(
            {"spec": {"containers": [{"name": "agent", "volumeMounts": [{"name": "v", "mountPath": path}]}]}},
            f"[{path}] would cover a mount of the operator",
            id=f"a mount at {path}",
        )
        for path in (
            "/etc/fleetwright/./auth",
            "/etc//fleetwright",
            "//etc/fleetwright",
            "/opt/../etc/fleetwright",
            "/etc/fleetwright/auth/.",
            "etc/fleetwright",
            "/opt/..",
        )
    ),
    pytest.param({"metadata": {"annotations": None}}, "podTemplate.metadata.annotations is null", id="no annotations"),
    pytest.param({"metadata": {"labels": None}}, "podTemplate.metadata.labels is null", id="no labels"),
    pytest.param({"spec": {"volumes": None}}, "podTemplate.spec.volumes is null", id="no volumes"),
    pytest.param(
        container(env=[{"name": "A", "value": None}]), "containers[0].env[0].value is null", id="a null inside"
    ),
    pytest.param(
        {"spec": {"volumes": [{"name": "auth", "emptyDir": {}}]}}, "the operator's own volume", id="the credentials"
    ),
    pytest.param(
        {"spec": {"volumes": [{"name": "skill-x", "emptyDir": {}}]}}, "the operator's own volume", id="a skill"
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "agent", "image": "mine"}]}}, "[agent].image cannot be set", id="our program"
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "agent", "volumeMounts": [{"name": "v", "mountPath": "/etc"}]}]}},
        "would cover a mount of the operator",
        id="a mount above ours",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "agent", "volumeMounts": [{"name": "v", "mountPath": "/tmp/x/"}]}]}},
        "would cover a mount of the operator",
        id="a mount inside ours",
    ),
    pytest.param(
        {"spec": {"terminationGracePeriodSeconds": 1}}, "must be at least 45", id="less time than draining takes"
    ),
    pytest.param(
        {"metadata": {"labels": {"fleetwright.dev/may-call": "x"}}}, "is managed by the operator", id="a label of ours"
    ),
    pytest.param({"metadata": {"labels": ["x"]}}, "labels must be an object", id="labels that are none"),
    pytest.param({"spec": {"containers": "x"}}, "containers must be a list", id="containers that are none"),
    pytest.param({"spec": {"containers": [{"image": "i"}]}}, "have a unique name", id="a container without name"),
    pytest.param(container(env=[{"value": "x"}]), "env must be a list", id="a variable without name"),
    pytest.param({"spec": {"$patch": "delete"}}, "spec.$patch cannot be set", id="a directive"),
]


@pytest.mark.parametrize(("patch", "says"), REFUSED)
def test_template_problems_names_a_patch_that_weakens_the_pod(objects, settings, patch, says):
    strict = replace(settings, api_audiences=frozenset({"https://issuer.example.com/cluster-1", "custom"}))
    problems = list(template_problems(patch, template(objects, settings), strict))
    assert any(says in problem for problem in problems), problems


def test_pod_template_patch_is_merged_into_the_pod(objects, settings):
    patch = {
        "metadata": {"annotations": ALLOWED},
        "spec": {
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [
                {"name": "cache", "emptyDir": {}},
                {
                    "name": "vault",
                    "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]},
                },
            ],
            "initContainers": [{"name": "warm", "image": "i"}],
            "containers": [
                {"name": "agent", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}], "env": [{"name": "A"}]},
                {
                    "name": "side",
                    "image": "i",
                    "ports": [{"containerPort": 1}],
                    "livenessProbe": {"httpGet": {"path": "/", "port": 1}},
                },
            ],
        },
    }
    assert list(template_problems(patch, template(objects, settings), settings)) == []
    agent = objects.agent_view(podTemplate=patch)
    pod = agent_deployment(owner_of(agent), agent.spec, revision="r", snapshots={}, servers={}, settings=settings)[
        "spec"
    ]["template"]
    assert pod["metadata"]["annotations"] == {"fleetwright.dev/revision": "r", **ALLOWED}
    first, second = pod["spec"]["containers"]
    assert {"name": "cache", "mountPath": "/cache"} in first["volumeMounts"]
    assert len(first["volumeMounts"]) > 3
    for sealed in (first, second, *pod["spec"]["initContainers"]):
        assert sealed["securityContext"] == container_security()
    assert pod["spec"]["tolerations"] == patch["spec"]["tolerations"]


SERVERS = [
    pytest.param({"spec": {"hostNetwork": True}}, "spec.hostNetwork cannot be set", id="the node's network"),
    pytest.param(
        {"spec": {"containers": [{"name": "server", "command": ["sh"]}]}},
        "containers[server].command cannot be set",
        id="another program",
    ),
    pytest.param(
        {"spec": {"containers": [{"name": "server", "volumeMounts": [{"name": "v", "mountPath": "/tmp/x"}]}]}},
        "would cover a mount of the operator",
        id="a mount inside ours",
    ),
    pytest.param(
        {"spec": {"volumes": [{"name": "tmp", "emptyDir": {}}]}}, "the operator's own volume", id="our volume"
    ),
    pytest.param({"metadata": {"labels": None}}, "metadata.labels is null", id="a null"),
    pytest.param(
        {"metadata": {"labels": {"fleetwright.dev/mcpserver": "other"}}},
        "is managed by the operator",
        id="a label of ours",
    ),
    pytest.param(
        {"spec": {"terminationGracePeriodSeconds": -1}}, "Seconds must be at least 0", id="less time than none"
    ),
]


@pytest.mark.parametrize(("patch", "says"), SERVERS)
async def test_server_patch_that_weakens_the_pod_is_not_applied(world, api, objects, patch, says):
    """A server's patch that weakens its pod is refused, and the running pod stays."""
    api.put(objects.server())
    await world.start()
    await world.settle()
    before = api.find("Deployment", "tools-mcp")["spec"]
    api.put(objects.server(podTemplate=patch))
    await world.settle()
    status, reason, message = world.conditions("McpServer", "tools")["Accepted"]
    assert (status, reason) == ("False", "PodTemplate")
    assert message.startswith("spec.workload.podTemplate.")
    assert says in message
    assert api.find("Deployment", "tools-mcp")["spec"] == before
    api.put(objects.server(podTemplate={"spec": {"terminationGracePeriodSeconds": 90}}))
    await world.settle()
    assert world.conditions("McpServer", "tools")["Accepted"][0] == "True"
    assert api.find("Deployment", "tools-mcp")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 90


async def test_network_policy_none_deletes_policies_and_reports_it(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    assert {policy["metadata"]["name"] for policy in api.all("NetworkPolicy")} == {"poet", "poet-ingress"}
    api.put(objects.agent(network={"policy": "None"}))
    await world.settle()
    assert api.all("NetworkPolicy") == []
    assert api.find("Agent", "poet")["status"]["egress"][0]["why"] == "spec.network.policy is None"


async def test_invalid_pod_template_blocks_the_agent_with_a_reason(world, api, objects):
    api.put(objects.agent(podTemplate={"spec": {"hostNetwork": True}}))
    await world.start()
    await world.settle()
    status, reason, message = world.conditions("Agent", "poet")["Accepted"]
    assert (status, reason) == ("False", "PodTemplate")
    assert message.startswith("spec.podTemplate.spec.hostNetwork cannot be set")
