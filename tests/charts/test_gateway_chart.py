"""The gateway in the chart: its objects and rights, and what changes for the operator."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli.selection import matches_labels

from fleetwright_api import names
from fleetwright_cli.inspection.support_report import INSTALLATION_PODS
from fleetwright_gateway.settings import GatewaySettings, settings_from
from fleetwright_operator import environment as operator_environment

Render = Callable[..., list[dict[str, Any]]]
GATEWAY = "fw-gateway"
ON = {"enabled": True}


def named(documents: list[dict[str, Any]], kind: str, name: str = GATEWAY) -> dict[str, Any]:
    (found,) = [each for each in documents if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


def container_of(deployment: dict[str, Any]) -> dict[str, Any]:
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(documents: list[dict[str, Any]], name: str) -> dict[str, str]:
    container = container_of(named(documents, "Deployment", name))
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_gateway_is_absent_by_default(render: Render) -> None:
    documents = render()
    assert not [each for each in documents if "gateway" in each["metadata"]["name"]]
    assert not [name for name in environment(documents, "fw-operator") if "GATEWAY" in name]


def test_support_report_selects_the_pods_of_the_operator_and_the_gateway(render: Render) -> None:
    templates = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in render(gateway=ON)
        if each["kind"] == "Deployment"
    }
    selected = [
        name for selector in INSTALLATION_PODS for name, labels in templates.items() if matches_labels(selector, labels)
    ]
    assert selected == ["fw-operator", GATEWAY]


def test_gateway_reads_exactly_the_rendered_environment(render: Render) -> None:
    documents = render(
        namespaces=["a", "b"],
        gateway={
            **ON,
            "publicURL": "https://agents.example.com",
            "publisher": "example.com",
            "issuers": ["https://login.example.com"],
            "acceptAPIServerTokens": True,
            "allowedOrigins": ["https://console.example.com"],
            "proxyCIDRs": ["10.1.0.0/16", "fd00::/8"],
            "requestsPerMinute": 60,
            "idleSeconds": 40,
            "wakeSeconds": 5,
            "refuseUnreportedBudgets": True,
        },
    )
    assert settings_from(environment(documents, GATEWAY)) == replace(
        GatewaySettings(),
        url="http://fw-gateway.system",
        public_url="https://agents.example.com",
        publisher="example.com",
        namespaces=("a", "b"),
        issuers=("https://login.example.com",),
        accept_api_server_tokens=True,
        allowed_origins=("https://console.example.com",),
        proxy_cidrs=("10.1.0.0/16", "fd00::/8"),
        requests_per_minute=60,
        idle_seconds=40.0,
        wake_seconds=5.0,
        refuse_unreported_budgets=True,
    )


def test_gateway_and_operator_agree_on_address_pods_and_keys(render: Render) -> None:
    documents = render(gateway=ON)
    settings = operator_environment.settings_from(
        {**environment(documents, "fw-operator"), "FLEETWRIGHT_CATALOG_FILE": "", "POD_NAMESPACE": "system"}
    )
    assert settings.gateway is not None
    deployment, service = named(documents, "Deployment"), named(documents, "Service")
    template = deployment["spec"]["template"]
    assert settings.gateway.url == settings_from(environment(documents, GATEWAY)).url
    assert settings.gateway.url == f"http://{service['metadata']['name']}.{service['metadata']['namespace']}"
    assert settings.gateway.pods.namespace == "system"
    assert settings.gateway.pods.labels.items() <= template["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (keys,) = [volume["secret"] for volume in template["spec"]["volumes"] if "secret" in volume]
    assert ("system", keys["secretName"]) == settings.gateway_keys_place
    (mount,) = [each for each in container_of(deployment)["volumeMounts"] if each["name"] == "keys"]
    assert f"{mount['mountPath']}/{names.RING_KEY}" == str(GatewaySettings().keys_file)
    role = named(documents, "Role", keys["secretName"])
    assert role["rules"][1] == {
        "apiGroups": [""],
        "resources": ["secrets"],
        "resourceNames": [keys["secretName"]],
        "verbs": ["get", "list", "watch", "patch"],
    }


def test_gateway_may_read_agents_and_review_callers(render: Render) -> None:
    reads = {
        "fleetwright.dev/agents": ["list", "patch", "watch"],
        "/pods": ["list", "watch"],
        "/configmaps": ["list", "watch"],
        "apps/replicasets": ["list", "watch"],
        "apps/deployments": ["list", "watch"],
    }
    reviews = {
        "authentication.k8s.io/tokenreviews": ["create"],
        "authorization.k8s.io/subjectaccessreviews": ["create"],
    }

    def rights(role: dict[str, Any]) -> dict[str, list[str]]:
        return {
            f"{group}/{resource}": sorted(rule["verbs"])
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }

    everywhere = render(gateway=ON)
    role = named(everywhere, "ClusterRole", "system-fw-gateway")
    assert rights(role) == {**reviews, **reads, "/namespaces": ["list", "watch"]}
    limited = render(gateway=ON, namespaces=["a"])
    assert rights(named(limited, "ClusterRole", "system-fw-gateway")) == reviews
    assert rights(named(limited, "Role", "system-fw-gateway")) == reads
    assert named(limited, "RoleBinding", "system-fw-gateway")["subjects"] == [
        {"kind": "ServiceAccount", "name": GATEWAY, "namespace": "system"}
    ]


def test_admission_policy_limits_the_gateways_writes(render: Render) -> None:
    documents = render(gateway=ON)
    policy = named(documents, "ValidatingAdmissionPolicy", "system-fw-gateway")["spec"]
    assert policy["failurePolicy"] == "Fail"
    assert policy["matchConditions"] == [
        {"name": "gateway", "expression": 'request.userInfo.username == "system:serviceaccount:system:fw-gateway"'}
    ]
    assert all(names.WAKE_ANNOTATION in each["message"] for each in policy["validations"][1:])
    binding = named(documents, "ValidatingAdmissionPolicyBinding", "system-fw-gateway")["spec"]
    assert binding == {"policyName": "system-fw-gateway", "validationActions": ["Deny"]}


def test_gateway_pods_are_restricted_and_spread(render: Render) -> None:
    pod = named(render(gateway=ON), "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (spread,) = pod["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "ScheduleAnyway")


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        pytest.param({}, {"PodDisruptionBudget"}, id="two pods have a budget"),
        pytest.param({"replicas": 1}, set(), id="a single pod has none"),
        pytest.param(
            {"autoscaling": ON}, {"PodDisruptionBudget", "HorizontalPodAutoscaler"}, id="a number of pods by load"
        ),
        pytest.param(
            {"publicURL": "https://a.example.com", "ingress": {**ON, "host": "a.example.com"}},
            {"PodDisruptionBudget", "Ingress"},
            id="an Ingress",
        ),
    ],
)
def test_gateway_objects_follow_the_values(render: Render, values: dict[str, Any], kinds: set[str]) -> None:
    documents = render(gateway={**ON, **values})
    optional = {"PodDisruptionBudget", "HorizontalPodAutoscaler", "Ingress"}
    assert {each["kind"] for each in documents if each["metadata"]["name"] == GATEWAY} & optional == kinds
    assert ("replicas" in named(documents, "Deployment")["spec"]) is ("autoscaling" not in values)


def test_gateway_ingress_routes_its_host_with_tls(render: Render) -> None:
    ingress = {
        **ON,
        "host": "a.example.com",
        "className": "nginx",
        "tlsSecretName": "cert",
        "annotations": {"team": "a"},
    }
    found = named(render(gateway={**ON, "publicURL": "https://a.example.com", "ingress": ingress}), "Ingress")
    assert found["metadata"]["annotations"] == {"team": "a"}
    assert found["spec"]["ingressClassName"] == "nginx"
    assert found["spec"]["tls"] == [{"hosts": ["a.example.com"], "secretName": "cert"}]
    (rule,) = found["spec"]["rules"]
    assert rule["host"] == "a.example.com"
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": GATEWAY, "port": {"name": "http"}}


def test_gateway_network_policy_admits_agents_and_named_peers(render: Render) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    documents = render(
        gateway={**ON, "allowedPeers": [peer]},
        networkPolicy=ON,
        monitoring={"namespace": "monitoring", "podLabels": {"app": "prometheus"}},
    )
    policy = named(documents, "NetworkPolicy")["spec"]
    agents = {
        "namespaceSelector": {},
        "podSelector": {
            "matchLabels": {"app.kubernetes.io/managed-by": "fleetwright", "app.kubernetes.io/component": "agent"}
        },
    }
    traffic, scrapes = policy["ingress"]
    assert traffic == {"from": [agents, peer], "ports": [{"protocol": "TCP", "port": GatewaySettings().port}]}
    assert scrapes["ports"] == [{"protocol": "TCP", "port": GatewaySettings().ops_port}]
    api, pods = policy["egress"]
    assert {port["port"] for port in api["ports"]} == {443, 6443}
    assert pods["to"] == [agents]
    assert {port["port"] for port in pods["ports"]} == {names.A2A_PORT, names.OPS_PORT}
    assert not [each for each in render(gateway=ON) if each["kind"] == "NetworkPolicy"]


def test_gateway_has_a_pod_monitor(render: Render) -> None:
    documents = render(gateway=ON, prometheus={"podMonitors": ON})
    monitor = named(documents, "PodMonitor")["spec"]
    assert monitor["selector"]["matchLabels"] == named(documents, "Deployment")["spec"]["selector"]["matchLabels"]
    assert {port["port"] for port in monitor["podMetricsEndpoints"]} == {"ops"}


def test_command_against_stolen_keys_names_the_objects_of_the_chart(render: Render) -> None:
    """The command of the guide is written for a release with the name `fleetwright`."""
    deployment = named(render(gateway=ON), "Deployment")
    (volume,) = [each for each in deployment["spec"]["template"]["spec"]["volumes"] if each["name"] == "keys"]
    secret = _secret_of(volume).replace("fw-", "fleetwright-")
    guide = (Path(__file__).parents[2] / "docs/guides/one-url-for-all-agents.md").read_text()
    restart = f"rollout restart deployment {GATEWAY.replace('fw-', 'fleetwright-')}"
    assert f"delete secret {secret} && kubectl -n fleetwright-system {restart}" in guide
    # A pod without the Secret does not start, so no replica keeps the stolen key.
    assert "optional" not in str(volume)


def _secret_of(volume: dict[str, Any]) -> str:
    return str(volume["secret"]["secretName"])
