"""The chart as helm renders it: the objects and rights that it installs, and the values that it refuses."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetwright_api import names
from fleetwright_api.model_catalog import MODEL_KEYS, PRICE_KEYS
from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.environment import settings_from
from fleetwright_operator.settings import HelperPodDefaults

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "fleetwright"
AGENT_PODS = {"app.kubernetes.io/managed-by": "fleetwright", "app.kubernetes.io/component": "agent"}


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    (deployment,) = (each for each in of_kind(documents, "Deployment") if each["metadata"]["name"] == "fw-operator")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}


def operator_roles(documents):
    """Return the ClusterRoles of the operator, without those that are aggregated to the roles of users."""
    names = {f"system-fw-operator-{suffix}" for suffix in ("approvals-edit", "approvals-view", "edit", "view")}
    return [role for role in of_kind(documents, "ClusterRole") if role["metadata"]["name"] not in names]


def test_chart_passes_helm_lint(run):
    done = run("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


def test_crds_match_the_checkout_and_are_kept_on_uninstall(render):
    found = {crd["metadata"]["name"]: crd for crd in of_kind(render(), "CustomResourceDefinition")}
    sources = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    assert {source["metadata"]["name"]: source["spec"] for source in sources} == {
        name: crd["spec"] for name, crd in found.items()
    }
    assert all(crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for crd in found.values())


def test_crds_can_be_removed_on_uninstall_or_excluded(render):
    going = of_kind(render(crds={"keep": False}), "CustomResourceDefinition")
    assert len(going) == 4
    assert not any("annotations" in crd["metadata"] for crd in going)
    assert of_kind(render(crds={"enabled": False}), "CustomResourceDefinition") == []


def test_chart_has_copies_of_the_crds():
    """Helm prints a line about each symbolic link of a chart, so the chart has copies; `make generated` makes them."""
    copies = {path.name: path.read_text() for path in (CHART / "files" / "crds").iterdir()}
    assert copies == {path.name: path.read_text() for path in (ROOT / "crds").iterdir()}
    assert not any(path.is_symlink() for path in CHART.rglob("*"))


def test_package_contains_the_crds(run, tmp_path):
    done = run("package", str(CHART), "-d", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    (package,) = tmp_path.glob("*.tgz")
    listed = subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout.split()
    assert {f"fleetwright/files/crds/{name}.yaml" for name in ("agent", "skill", "mcpserver", "approval")} <= set(
        listed
    )


def test_rbac_uses_cluster_role_or_one_role_per_namespace(render):
    """All namespaces require a ClusterRole; named ones get a Role each."""
    everywhere = render()
    assert len(operator_roles(everywhere)) == 1
    assert {role["metadata"]["name"] for role in of_kind(everywhere, "Role")} == {
        "fw-operator-lease",
        "fw-operator-card-keys",
        "system-fw-operator-api-server",
    }
    named = render(namespaces=["a", "b"])
    assert operator_roles(named) == of_kind(named, "ClusterRoleBinding") == []
    assert [role["metadata"]["namespace"] for role in of_kind(named, "Role")].count("system") == 2
    assert {"a", "b"} < {role["metadata"]["namespace"] for role in of_kind(named, "Role")}
    assert environment(named)["FLEETWRIGHT_NAMESPACES"] == "a,b"


@pytest.mark.parametrize(
    ("values", "works"),
    [
        pytest.param([], False, id="neither"),
        pytest.param(["--set=rbac.clusterWideSecrets=true"], True, id="the consent"),
        pytest.param(["--set=namespaces={a,b}"], True, id="namespaces"),
    ],
)
def test_cluster_wide_secret_access_requires_opt_in(run, values, works):
    done = run("template", "fw", str(CHART), "--kube-version", "1.36.0", *values)
    assert (done.returncode == 0) is works
    assert works or "List the namespaces of your agents in namespaces, or set rbac.clusterWideSecrets" in done.stderr


def test_secret_access_is_limited_to_named_namespaces(render):
    documents = render(namespaces=["a", "b"], rbac={"clusterWideSecrets": True})
    assert operator_roles(documents) == []
    reading = [
        role["metadata"]["namespace"]
        for role in of_kind(documents, "Role")
        for rule in role["rules"]
        if "secrets" in rule["resources"] and "list" in rule["verbs"]
    ]
    assert {"a", "b"} <= set(reading) <= {"a", "b", "system"}


def test_cluster_role_rules_are_exactly_as_listed(render):
    (role,) = operator_roles(render())
    rights: dict[str, list[str]] = {}
    for rule in role["rules"]:
        for name in [f"{group or 'core'}/{part}" for group in rule["apiGroups"] for part in rule["resources"]]:
            rights[name] = sorted([*rights.get(name, []), *rule["verbs"]])
    watch, write = ["get", "list", "watch"], ["create", "delete", "get", "list", "patch", "watch"]
    kinds = ("agents", "skills", "mcpservers")
    assert rights == {
        **{f"fleetwright.dev/{kind}": watch for kind in kinds},
        "fleetwright.dev/agents": [*watch[:2], "patch", watch[2]],
        "fleetwright.dev/approvals": write,
        **{f"fleetwright.dev/{kind}/status": ["patch"] for kind in (*kinds, "approvals")},
        **{f"fleetwright.dev/{kind}/finalizers": ["update"] for kind in kinds},
        **{f"core/{kind}": write for kind in ("serviceaccounts", "configmaps", "secrets", "services")},
        "core/persistentvolumeclaims": ["create", "get", "list", "patch", "watch"],
        "core/pods": write,
        "core/pods/log": ["get"],
        **{f"core/{kind}": ["list", "watch"] for kind in ("limitranges", "resourcequotas")},
        "apps/deployments": write,
        "apps/replicasets": ["list", "watch"],
        "networking.k8s.io/networkpolicies": write,
        "core/namespaces": ["list", "watch"],
        "core/events": ["create", "patch"],
    }
    assert not any("*" in rule[part] for rule in role["rules"] for part in ("verbs", "resources", "apiGroups"))


@pytest.mark.parametrize(
    ("release", "namespace"),
    [
        pytest.param("true", "123", id="names that YAML would read as other values"),
        pytest.param("a" * 46, "0x1f", id="the longest release name"),
    ],
)
def test_chart_quotes_names_that_yaml_reads_as_other_values(run, release, namespace):
    values = ("--set", "gateway.enabled=true", "--set", "prometheus.podMonitors.enabled=true")
    done = run(
        *("template", release, str(CHART), "-n", namespace, "--kube-version", "1.36.0", *values),
        *("--set-json", 'namespaces=["123","true"]'),
    )
    assert done.returncode == 0, done.stderr
    for body in yaml.safe_load_all(done.stdout):
        metadata = body["metadata"]
        texts = [metadata["name"], metadata.get("namespace", ""), *metadata.get("labels", {}).values()]
        texts += [subject["namespace"] for subject in body.get("subjects", ()) if "namespace" in subject]
        assert all(isinstance(text, str) for text in texts), body
        if body["kind"] == "Service":
            assert len(metadata["name"]) <= 63


@pytest.mark.parametrize("release", ["1st", "my.release", "a" * 47])
def test_release_name_that_services_cannot_have_is_refused(run, release):
    done = run("template", release, str(CHART), "--kube-version", "1.36.0", "--set", "namespaces={shop}")
    assert done.returncode != 0
    assert f'the release name "{release}" must begin with a letter' in done.stderr


def test_chart_is_a_conditional_subchart(run, tmp_path):
    parent = tmp_path / "platform"
    parent.mkdir()
    dependency = {
        "name": "fleetwright",
        "version": "*",
        "repository": CHART.as_uri(),
        "condition": "fleetwright.enabled",
    }
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (parent / "Chart.yaml").write_text(yaml.safe_dump(chart))
    done = run("dependency", "build", "--skip-refresh", str(parent))
    assert done.returncode == 0, done.stderr
    for enabled in ("true", "false"):
        done = run(
            *(
                "template",
                "platform",
                str(parent),
                "--kube-version",
                "1.36.0",
                "--set",
                f"fleetwright.enabled={enabled}",
            ),
            *("--set", "fleetwright.namespaces={shop}", "--set", "global.region=eu"),
        )
        assert done.returncode == 0, done.stderr
        assert ("kind: Deployment" in done.stdout) is (enabled == "true")


def aggregated_rights(documents):
    """Return the verbs that the chart adds to the ClusterRoles of Kubernetes, by role and resource."""
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    return {
        (label.removeprefix(prefix), resource): sorted(rule["verbs"])
        for role in of_kind(documents, "ClusterRole")
        for label in role["metadata"]["labels"]
        if label.startswith(prefix)
        for rule in role["rules"]
        for resource in rule["resources"]
    }


READ = ["get", "list", "watch"]
CHANGE = ["create", "delete", "deletecollection", *READ, "patch", "update"]
KINDS = ("agents", "mcpservers", "skills")


def test_user_rights_are_aggregated_to_edit_and_view(render):
    rights = aggregated_rights(render())
    assert rights.pop(("edit", "approvals")) == ["get", "list", "patch", "update", "watch"]
    assert rights.pop(("view", "approvals")) == READ
    assert {key: sorted(verbs) for key, verbs in rights.items()} == {
        **{("edit", kind): sorted(CHANGE) for kind in KINDS},
        **{("view", kind): READ for kind in KINDS},
    }


def test_editors_who_may_not_decide_read_approvals_only(render):
    rights = aggregated_rights(render(approvals={"decidedByEditors": False}))
    assert ("edit", "approvals") not in rights
    assert ("view", "approvals") in rights


def test_rights_of_users_need_not_be_aggregated(render):
    documents = render(rbac={"aggregateClusterRoles": False, "clusterWideSecrets": True})
    assert aggregated_rights(documents) == {}
    names = {role["metadata"]["name"] for role in of_kind(documents, "ClusterRole")}
    assert {"system-fw-operator-edit", "system-fw-operator-view", "system-fw-operator-approvals-edit"} <= names


def approval_policy(documents, kind="ValidatingAdmissionPolicy"):
    (found,) = [each for each in of_kind(documents, kind) if each["metadata"]["name"] == "system-fw-operator-approvals"]
    return found["spec"]


def test_approval_policy_covers_the_namespaces_of_its_operator(render):
    everywhere = approval_policy(render())
    assert (everywhere["failurePolicy"], "namespaceSelector" in everywhere["matchConstraints"]) == ("Fail", False)
    assert '"system:serviceaccount:system:fw-operator"' in everywhere["variables"][0]["expression"]
    named = approval_policy(render(namespaces=["a", "b"]))
    (expression,) = named["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}
    binding = approval_policy(render(), "ValidatingAdmissionPolicyBinding")
    assert binding == {"policyName": "system-fw-operator-approvals", "validationActions": ["Deny"]}


def test_operator_pod_security_is_restricted(render):
    (deployment,) = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_operator_accepts_the_rendered_environment(render, tmp_path):
    documents = render(
        agentImage="agent:2",
        agentImagePullSecrets=["company", "mirror"],
        clusterDomain="corp.local",
        monitoring={"namespace": "monitoring", "podLabels": {"app": "prometheus"}},
        catalog={"models": {"mine": {"contextWindow": 5000, "baseURL": "http://llm/v1"}}},
    )
    catalog = tmp_path / "catalog.yaml"
    (config_map,) = of_kind(documents, "ConfigMap")
    catalog.write_text(config_map["data"]["catalog.yaml"])
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": str(catalog)})
    assert (settings.agent_image, settings.cluster_domain) == ("agent:2", "corp.local")
    assert settings.pull_secrets == ("company", "mirror")
    assert settings.catalog.lookup("mine").context_window == 5000
    assert settings.catalog.lookup("gpt-4o-mini").price
    assert settings.monitoring is not None
    assert settings.monitoring.namespace == "monitoring"
    assert settings.operator is not None
    (deployment,) = of_kind(documents, "Deployment")
    assert settings.operator.labels.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert settings.operator.namespace == "system"
    lease = next(role for role in of_kind(documents, "Role") if role["metadata"]["name"].endswith("-lease"))
    assert lease["rules"][1]["resourceNames"] == [settings.lease_name]


def test_operator_role_reads_one_secret_of_its_namespace(render):
    documents = render(namespaces=["a"], cards={"keyTTL": "48h", "keyOverlap": "2h"})
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": "", "POD_NAMESPACE": "system"})
    (role,) = (role for role in of_kind(documents, "Role") if role["metadata"]["name"] == settings.card_keys_name)
    assert settings.card_rotation == Rotation(ttl=48 * 3600, overlap=2 * 3600)
    assert role["metadata"]["namespace"] == settings.card_keys_place[0]
    rights = {tuple(rule["verbs"]): rule.get("resourceNames") for rule in role["rules"]}
    assert rights == {("create",): None, ("get", "list", "watch", "patch"): [settings.card_keys_name]}


def test_operator_accepts_the_shortest_lifetimes_of_the_chart(render):
    documents = render(credentials={"tokenTTL": "1m", "overlap": "30s"}, cards={"keyTTL": "60s", "keyOverlap": "1m"})
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": ""})
    assert settings.token_rotation == Rotation(ttl=60, overlap=30)
    assert settings.card_rotation == Rotation(ttl=60, overlap=60)


def test_api_server_endpoints_role_follows_the_deny_setting(render):
    """The operator reads one object of the API server's addresses, unless the values disable it."""
    documents = render(network={"deniedRanges": ["192.88.1.0/24", "2a00::/16"]})
    (role,) = (role for role in of_kind(documents, "Role") if role["metadata"]["namespace"] == "default")
    (rule,) = role["rules"]
    assert rule == {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "resourceNames": ["kubernetes"],
        "verbs": ["get"],
    }
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": ""})
    assert [str(network) for network in settings.denied_ranges] == ["192.88.1.0/24", "2a00::/16"]
    assert settings.stated_ranges == settings.denied_ranges
    assert settings.deny_api_server
    alone = render(network={"denyAPIServer": False})
    assert not [role for role in of_kind(alone, "Role") if role["metadata"]["namespace"] == "default"]
    assert not settings_from({**environment(alone), "FLEETWRIGHT_CATALOG_FILE": ""}).deny_api_server


CILIUM = [
    pytest.param(False, None, id="off, without rights"),
    pytest.param(True, {"get", "create", "patch", "list", "watch", "delete"}, id="on, with those of a child"),
    pytest.param("remove", {"list", "watch", "delete"}, id="on its way out, with those to find and delete"),
]


@pytest.mark.parametrize(("value", "verbs"), CILIUM)
def test_cilium_policy_rbac_is_granted_on_request(render, value, verbs):
    documents = render(network={"cilium": value})
    (role,) = operator_roles(documents)
    found = [rule for rule in role["rules"] if rule["apiGroups"] == ["cilium.io"]]
    assert [(rule["resources"], set(rule["verbs"])) for rule in found] == (
        [(["ciliumnetworkpolicies"], verbs)] if verbs else []
    )
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": ""})
    assert settings.cilium == str(value).lower()


def test_catalog_change_changes_the_pod_template(render):
    def mark(documents: list[dict[str, Any]]) -> str:
        (deployment,) = of_kind(documents, "Deployment")
        return str(deployment["spec"]["template"]["metadata"]["annotations"]["fleetwright.dev/catalog"])

    assert mark(render()) == mark(render())
    assert mark(render()) != mark(render(catalog={"models": {"mine": {"contextWindow": 1}}}))


class Asked(Mapping[str, str]):
    """An environment that records the names of the variables that were read."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values_by_name = values
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names.add(name)
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)


def test_chart_values_cover_exactly_the_operator_settings(render):
    # The pod itself fixes port and path. Only the tests of faults shorten the timeouts of the operator.
    patience = {f"FLEETWRIGHT_{name}_SECONDS" for name in ("REQUEST", "STALLED", "RETRY_CAP", "TOKEN_LEAD")}
    optional = {"monitoring": {"namespace": "m"}, "gateway": {"enabled": True}}
    ours = environment(render(**optional, rollouts=3, probes=5, drainSeconds=7, workers=2, resyncSeconds=60))
    asked = Asked({**ours, "FLEETWRIGHT_CATALOG_FILE": ""})
    settings = settings_from(asked)
    assert (settings.rollouts, settings.drain_seconds, settings.workers, settings.resync_seconds) == (3, 7, 2, 60)
    assert settings.probes == 5
    # The kubelet sets the last one in every pod.
    fixed = {"FLEETWRIGHT_OPS_PORT", "POD_IPS", "POD_NAME", "POD_NAMESPACE", "KUBERNETES_SERVICE_HOST"}
    assert asked.names - fixed - patience == set(ours) - {"FLEETWRIGHT_LOG_LEVEL"}


OLD = [
    pytest.param("1.29.9", False, id="a version whose rules cannot compute with quantities"),
    pytest.param("1.30.0", True, id="the oldest"),
    pytest.param("1.33.4-eks-1", True, id="a provider's own"),
    pytest.param("1.36.3", True, id="the one that is tested"),
]


@pytest.mark.parametrize(("version", "fits"), OLD)
def test_chart_refuses_unsupported_kubernetes_versions(run, version, fits):
    done = run("template", "fw", str(CHART), "--kube-version", version, "--set=namespaces={a}")
    assert (done.returncode == 0) is fits
    assert fits or "kubeVersion" in done.stderr


def test_crd_stays_below_the_object_size_limit(render):
    for crd in of_kind(render(), "CustomResourceDefinition"):
        assert len(json.dumps(crd)) < 256 * 1024


LINUX = {"kubernetes.io/os": "linux"}
PLACING = {
    "nodeSelector": {"pool": "infra"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    "priorityClassName": "system-cluster-critical",
}


def test_operator_pod_placement_and_metadata_follow_the_values(render):
    marks = {"podLabels": {"team": "platform"}, "podAnnotations": {"example.com/paged": "no"}}
    (deployment,) = of_kind(render(**PLACING, **marks), "Deployment")
    template = deployment["spec"]["template"]
    assert {key: template["spec"][key] for key in PLACING} == {**PLACING, "nodeSelector": {**LINUX, "pool": "infra"}}
    assert template["metadata"]["labels"]["team"] == "platform"
    assert deployment["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert set(template["metadata"]["annotations"]) == {"example.com/paged", "fleetwright.dev/catalog"}


def test_operator_pod_is_placed_on_linux_by_default(render):
    (deployment,) = of_kind(render(), "Deployment")
    assert {key: deployment["spec"]["template"]["spec"].get(key) for key in PLACING} == {
        **dict.fromkeys(PLACING),
        "nodeSelector": LINUX,
    }


HELPER_PODS = {
    "resources": {"requests": {"cpu": "100m"}},
    "labels": {"cost": "platform"},
    "annotations": {"sidecar.istio.io/inject": "false"},
    "nodeSelector": {"pool": "helpers"},
    "tolerations": [{"key": "helpers", "operator": "Exists"}],
    "priorityClassName": "low",
}


def test_helper_pods_reach_the_operator_as_settings(render):
    found = settings_from(
        {name: value for name, value in environment(render(helperPods=HELPER_PODS)).items() if "HELPER" in name}
    )
    assert found.helper_pods == HelperPodDefaults(
        resources=HELPER_PODS["resources"],
        labels=HELPER_PODS["labels"],
        annotations=HELPER_PODS["annotations"],
        node_selector=HELPER_PODS["nodeSelector"],
        tolerations=tuple(HELPER_PODS["tolerations"]),
        priority_class_name="low",
    )
    unset = {name: value for name, value in environment(render()).items() if "HELPER" in name}
    assert settings_from(unset).helper_pods == HelperPodDefaults()


@pytest.mark.parametrize("omits", [False, True])
def test_ids_of_pods_can_be_left_to_the_cluster(render, omits):
    documents = render(podSecurity={"omitIds": omits}, gateway={"enabled": True})
    assert environment(documents)["FLEETWRIGHT_OMIT_IDS"] == str(omits).lower()
    securities = [each["spec"]["template"]["spec"]["securityContext"] for each in of_kind(documents, "Deployment")]
    assert len(securities) == 2
    for security in securities:
        assert security["runAsNonRoot"] is True
        assert {"runAsUser", "runAsGroup", "fsGroup"}.isdisjoint(security) is omits


def test_gateway_pods_are_placed_on_linux(render):
    documents = render(gateway={"enabled": True, "nodeSelector": {"pool": "edge"}})
    selectors = [each["spec"]["template"]["spec"]["nodeSelector"] for each in of_kind(documents, "Deployment")]
    assert {**LINUX, "pool": "edge"} in selectors


def test_pod_disruption_budget_is_rendered_on_request(render):
    documents = render(replicas=2, podDisruptionBudget={"enabled": True})
    (budget,) = of_kind(documents, "PodDisruptionBudget")
    (deployment,) = of_kind(documents, "Deployment")
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert of_kind(render(replicas=2), "PodDisruptionBudget") == []


def test_optional_objects_are_disabled_by_default(render):
    kinds = {document["kind"] for document in render(crds={"enabled": False})}
    assert kinds.isdisjoint({"NetworkPolicy", "PodMonitor", "PrometheusRule"})
    assert [found["metadata"]["name"] for found in of_kind(render(), "ConfigMap")] == ["fw-operator-catalog"]


def test_operator_network_policy_admits_only_required_traffic(render):
    documents = render(
        networkPolicy={"enabled": True, "apiServer": {"ports": [8443], "cidrs": ["10.1.2.3/32"]}},
        monitoring={"namespace": "monitoring", "podLabels": {"app": "prometheus"}},
    )
    (policy,) = of_kind(documents, "NetworkPolicy")
    (deployment,) = of_kind(documents, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    (ingress,) = policy["spec"]["ingress"]
    assert ingress == {
        "from": [
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}},
                "podSelector": {"matchLabels": {"app": "prometheus"}},
            }
        ],
        "ports": [{"protocol": "TCP", "port": 8080}],
    }
    dns, api, agents = policy["spec"]["egress"]
    assert {(port["protocol"], port["port"]) for port in dns["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert dns["to"][0]["podSelector"]["matchLabels"] == {"k8s-app": "kube-dns"}
    assert api == {"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"protocol": "TCP", "port": 8443}]}
    assert agents["ports"] == [{"protocol": "TCP", "port": port} for port in (names.A2A_PORT, names.OPS_PORT)]
    assert agents["to"] == [{"namespaceSelector": {}, "podSelector": {"matchLabels": AGENT_PODS}}]


def test_operator_and_agents_use_the_same_dns_destinations(render):
    dns = {"namespace": "dns", "podLabels": {"k8s-app": None}, "ports": [53, 5353], "cidrs": ["169.254.20.10/32"]}
    documents = render(dns=dns, networkPolicy={"enabled": True})
    settings = settings_from({**environment(documents), "FLEETWRIGHT_CATALOG_FILE": ""})
    assert (settings.dns.pods.namespace, settings.dns.pods.labels) == ("dns", {})
    assert settings.dns.ports == (53, 5353)
    assert [str(each) for each in settings.dns.ranges] == ["169.254.20.10/32"]
    (policy,) = of_kind(documents, "NetworkPolicy")
    lookups = policy["spec"]["egress"][0]
    assert {(port["protocol"], port["port"]) for port in lookups["ports"]} == {
        (protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353)
    }
    assert lookups["to"][1] == {"ipBlock": {"cidr": "169.254.20.10/32"}}


def test_operator_network_policy_follows_the_named_namespaces(render):
    """A restricted operator reaches agents in its namespaces only and admits no unnamed scraper."""
    (policy,) = of_kind(render(networkPolicy={"enabled": True}, namespaces=["a", "b"]), "NetworkPolicy")
    assert policy["spec"]["ingress"] == []
    (rule,) = policy["spec"]["egress"][2]["to"][0]["namespaceSelector"]["matchExpressions"]
    assert rule == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}


def test_agent_pod_selector_matches_the_agent_pods():
    golden = yaml.safe_load_all((ROOT / "tests/operator/golden/agent-full.yaml").read_text())
    (deployment,) = (document for document in golden if document["kind"] == "Deployment")
    assert AGENT_PODS.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


BAD = [
    pytest.param({"networkPolicy": {"apiServer": {"cidrs": ["10.0.0.1"]}}}, "cidrs", id="an address that is no range"),
    pytest.param({"networkPolicy": {"apiServer": {"ports": []}}}, "ports", id="no way to the API server"),
    pytest.param({"network": {"deniedRanges": ["10.0.0.1"]}}, "deniedRanges", id="an address that is denied"),
    pytest.param({"network": {"denyAPIServer": "no"}}, "denyAPIServer", id="a word for a switch"),
    pytest.param({"network": {"cilium": "on"}}, "cilium", id="another word for it"),
    pytest.param({"agentImagePullSecrets": ["Team Registry"]}, "agentImagePullSecrets", id="a Secret that cannot be"),
    pytest.param({"dns": {"namespace": ""}}, "namespace", id="pods of no namespace that answer DNS"),
    pytest.param({"dns": {"ports": []}}, "ports", id="DNS at no port"),
    pytest.param({"dns": {"ports": ["domain"]}}, "ports", id="a port by name"),
    pytest.param({"dns": {"cidrs": ["169.254.20.10"]}}, "cidrs", id="a cache that is no range"),
    pytest.param({"podDisruptionBudget": {"enabled": True}}, "replicas", id="a budget for a single pod"),
    pytest.param({"podDisruptionBudget": {"minAvailable": 1}}, "minAvailable", id="a budget of another kind"),
    pytest.param({"tolerations": ["infra"]}, "tolerations", id="a toleration in a word"),
    pytest.param({"affinity": {"podsAffinity": {}}}, "podsAffinity", id="a misspelt affinity"),
    pytest.param({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "maxSkew", id="half a constraint"),
    pytest.param({"nodeSelector": {"gpu": True}}, "gpu", id="a label that is no text"),
    pytest.param({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels", id="a label that finds the pods"),
    pytest.param({"podAnnotations": {"fleetwright.dev/catalog": "x"}}, "podAnnotations", id="an annotation of ours"),
    pytest.param({"rollouts": 0}, "rollouts", id="no rollout at a time"),
    pytest.param({"prometheus": {"rules": {"tokenEndsWithin": "1d"}}}, "tokenEndsWithin", id="a misspelt option"),
    pytest.param({"replica": 2}, "replica", id="a misspelt value"),
    pytest.param({"replicas": "two"}, "replicas", id="a number in words"),
    pytest.param({"crds": {"install": True}}, "install", id="an unknown switch"),
    pytest.param({"namespaces": ["Prod"]}, "namespaces", id="a namespace that cannot be"),
    pytest.param({"cards": {"keyTTL": "90d"}}, "keyTTL", id="a duration in days"),
    pytest.param(
        {"credentials": {"tokenTTL": "24h"}},
        "credentials.overlap is 72h and must not be longer than credentials.tokenTTL, which is 24h",
        id="an overlap longer than the life",
    ),
    pytest.param(
        {"credentials": {"tokenTTL": "5s", "overlap": "1s"}}, "credentials.overlap is 1s and", id="an overlap too short"
    ),
    pytest.param(
        {"credentials": {"tokenTTL": "59s", "overlap": "30s"}},
        "credentials.tokenTTL is 59s and must be at least 60s",
        id="a life too short",
    ),
    pytest.param(
        {"cards": {"keyTTL": "1h", "keyOverlap": "61m"}},
        "cards.keyOverlap is 61m and must not be longer than cards.keyTTL",
        id="keys that sign for longer than they are new",
    ),
    pytest.param(
        {"gateway": {"enabled": True, "ingress": {"enabled": True, "host": "a.example.com"}}},
        "Set gateway.publicURL to https://a.example.com",
        id="an Ingress whose host is not in the cards",
    ),
    pytest.param(
        {
            "gateway": {
                "enabled": True,
                "publicURL": "https://a.example.com/agents",
                "ingress": {"enabled": True, "host": "a.example.com"},
            }
        },
        "Remove its path",
        id="an Ingress that would have to remove a path",
    ),
    pytest.param(
        {"gateway": {"enabled": True, "autoscaling": {"enabled": True, "minReplicas": 9}}},
        "must not be larger than gateway.autoscaling.maxReplicas, which is 6",
        id="more replicas at rest than under load",
    ),
    pytest.param({"cards": {"keySetURL": "http://keys"}}, "keySetURL", id="a key set that anybody could replace"),
    pytest.param({"helperPods": {"affinity": {}}}, "affinity", id="a field that helper pods do not have"),
    pytest.param(
        {"helperPods": {"labels": {"fleetwright.dev/agent": "x"}}},
        "helperPods/labels/fleetwright.dev",
        id="a label of the operator",
    ),
    pytest.param({"podSecurity": {"omitIds": "yes"}}, "omitIds", id="a switch that is a word"),
    pytest.param({"imagePullPolicy": "Sometimes"}, "imagePullPolicy", id="an unknown policy"),
    pytest.param({"catalog": {"models": {"m": {"contextwindow": 1}}}}, "contextwindow", id="a misspelt model fact"),
    pytest.param(
        {"catalog": {"models": {"m": {"price": {"inputPerMillion": 1, "outputPerMillion": "1"}}}}},
        "inputPerMillion",
        id="money as a number",
    ),
]


@pytest.mark.parametrize(("values", "says"), BAD)
def test_values_schema_refuses_invalid_values_by_name(run, tmp_path, values, says):
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({"namespaces": ["a"], **values}))
    done = run("template", "fw", str(CHART), "-f", str(file), "--kube-version", "1.36.0")
    assert done.returncode != 0
    assert says in done.stderr


def test_values_schema_describes_every_value():
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values) == set(schema["properties"]) - {"global", "enabled"}, "helm and a parent chart set these two"


def test_catalog_schema_matches_the_model_keys_of_the_operator():
    model = json.loads((CHART / "values.schema.json").read_text())["definitions"]["model"]["properties"]
    assert set(model) == MODEL_KEYS
    assert set(model["price"]["properties"]) == PRICE_KEYS


def test_install_guide_lists_every_chart_value():
    guide = (ROOT / "docs/guides/first-agent-on-a-cluster.md").read_text()
    table = guide.partition("| value | meaning | default |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.count("|") > 3]
    told = {value for first in firsts for value in re.findall(r"`(\w+)", first)}
    assert told == set(yaml.safe_load((CHART / "values.yaml").read_text()))
