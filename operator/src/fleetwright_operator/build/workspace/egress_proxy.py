"""The egress proxy of a workspace: a pod that connects to the hosts that the spec names, for the workspace only. Pure.

It exists only while the spec names hosts. It holds no credential, and its rules are in its arguments, so that a change
of the hosts replaces the pod.
"""

from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.addresses import pods
from fleetwright_operator.build.network.egress import EgressRule, Services, dns_rule
from fleetwright_operator.build.network_policy import egress_proxy_policy
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.pod_security import http_probe, pull_secrets, sealed_pod
from fleetwright_operator.build.workspace.container import program_container
from fleetwright_operator.build.workspace.egress_hosts import proxy_document, proxy_egress_rules

COMPONENT: Final = "workspace-egress"
_RESOURCES: Final = {
    "requests": {"cpu": "10m", "memory": "32Mi", RESOURCE: "16Mi"},
    "limits": {"memory": "128Mi", RESOURCE: "64Mi"},
}
_ENDING_SECONDS: Final = 30
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def proxy_children(
    agent: AgentView, services: Services, *, workspace: dict[str, str], runs: bool, helpers: HelperPodSettings
) -> list[Manifest]:
    """Return the policy, the Service and the Deployment of the proxy.

    Args:
        workspace: The labels of the only pod that may use the proxy.
        runs: False while the agent is suspended or asleep.
        helpers: The placement of the pod.
    """
    owner, settings = owner_of(agent), helpers.settings
    rules = [dns_rule(settings), *proxy_egress_rules(agent, services, settings)]
    document = canonical_json(proxy_document(agent, services, settings))
    return [
        egress_proxy_policy(owner, _selector(owner.name), workspace=workspace, egress_rules=rules),
        _service(owner),
        _deployment(owner, document, runs=runs, helpers=helpers),
    ]


def proxy_rule(agent: AgentView) -> EgressRule:
    """Return the route from the workspace to its proxy."""
    return EgressRule(
        to=f"the pod of its egress proxy, port {names.EGRESS_PROXY_PORT}",
        why="spec.workspace.network.egress",
        peers=(pods(_selector(agent.name), namespace=agent.namespace),),
        ports=(("TCP", names.EGRESS_PROXY_PORT),),
    )


def proxy_environment(address: str, workspace: WorkspaceSpec) -> list[dict[str, str]]:
    """Return the variables with which commands find the proxy, in both spellings that programs read.

    Args:
        address: The IP address of the Service. The shell cannot resolve its name, because it reaches no DNS.
    """
    host = f"[{address}]" if ":" in address else address
    url = f"http://{host}:{names.EGRESS_PROXY_PORT}"
    ranges = [rule.to.ip_block.cidr for rule in workspace.network.egress if rule.to.ip_block is not None]
    values = {"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": ",".join([*_LOOPBACK, *ranges])}
    return [{"name": each, "value": value} for name, value in values.items() for each in (name, name.lower())]


def _selector(agent: str) -> dict[str, str]:
    return {names.WORKSPACE_LABEL: agent, names.COMPONENT: COMPONENT}


def _service(owner: Owner) -> Manifest:
    port = {"name": "proxy", "port": names.EGRESS_PROXY_PORT, "targetPort": "proxy", "protocol": "TCP"}
    return {
        **manifest("v1", "Service", name=names.workspace_egress(owner.name), owner=owner),
        "spec": {"type": "ClusterIP", "selector": _selector(owner.name), "ports": [port]},
    }


def _deployment(owner: Owner, document: str, *, runs: bool, helpers: HelperPodSettings) -> Manifest:
    settings = helpers.settings
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.NAME: owner.name, **_selector(owner.name)}
    container: dict[str, Any] = {
        **program_container("proxy", settings.agent_image, _RESOURCES),
        "command": ["python", "-m", "fleetwright_workspace.proxy"],
        "args": [f"--listen=0.0.0.0:{names.EGRESS_PROXY_PORT}", f"--rules={document}"],
        "ports": [{"name": "proxy", "containerPort": names.EGRESS_PROXY_PORT, "protocol": "TCP"}],
        "readinessProbe": http_probe("/healthz", port="proxy", period=5, failures=2),
        "livenessProbe": http_probe("/healthz", port="proxy", period=10, failures=3),
    }
    pod = {
        **sealed_pod(settings),
        **pull_secrets(settings.pull_secrets),
        "terminationGracePeriodSeconds": _ENDING_SECONDS,
        "containers": [container],
    }
    return {
        **manifest("apps/v1", "Deployment", name=names.workspace_egress(owner.name), owner=owner),
        "spec": {
            "replicas": 1 if runs else 0,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": _selector(owner.name)},
            "template": {"metadata": helpers.merge_metadata(labels), "spec": helpers.complete_single_pod(pod)},
        },
    }
