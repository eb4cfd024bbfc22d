"""The children of an McpServer that runs here: Deployment, Service, NetworkPolicy, restricted like an agent's."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.desired.egress import dns_route
from fleetwright_operator.desired.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.desired.network import server_policy
from fleetwright_operator.desired.pod import container_security, sealed_pod
from fleetwright_operator.endpoints import DEFAULT_MCP_PORT
from fleetwright_operator.settings import Settings


def server_children(server: Mapping[str, Any], *, users: Sequence[str], settings: Settings) -> list[Manifest]:
    """`users` are the agents that name this server; only their pods may reach it."""
    workload = server["spec"].get("workload")
    if workload is None:
        return []
    owner = owner_of(server)
    port = workload.get("port", DEFAULT_MCP_PORT)
    return [
        server_policy(owner, users=users, port=port, dns=dns_route(settings)),
        _service(owner, port),
        _deployment(owner, workload, port=port, settings=settings),
    ]


def _service(owner: Owner, port: int) -> Manifest:
    entry = {"name": "mcp", "port": port, "targetPort": "mcp", "protocol": "TCP", "appProtocol": "http"}
    return {
        **manifest("v1", "Service", name=names.mcp_workload(owner.name), owner=owner),
        "spec": {"type": "ClusterIP", "selector": owner.selector, "ports": [entry]},
    }


def _deployment(owner: Owner, workload: Mapping[str, Any], *, port: int, settings: Settings) -> Manifest:
    labels = {**owner.labels, names.COMPONENT: "mcpserver"}
    return {
        **manifest("apps/v1", "Deployment", name=names.mcp_workload(owner.name), owner=owner),
        "spec": {
            # Streamable HTTP keeps sessions in the server's memory: a second pod would not know them.
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": owner.selector},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    **sealed_pod(),
                    "containers": [_container(workload, port=port, settings=settings)],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }


def _container(workload: Mapping[str, Any], *, port: int, settings: Settings) -> dict[str, Any]:
    return {
        "name": "server",
        "image": workload["image"],
        "imagePullPolicy": "IfNotPresent",
        **{key: list(workload[key]) for key in ("command", "args") if workload.get(key)},
        "env": [{"name": "PORT", "value": str(port)}, *(dict(variable) for variable in workload.get("env", ()))],
        "ports": [{"name": "mcp", "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": "mcp"}, "periodSeconds": 2, "failureThreshold": 3},
        "resources": workload.get("resources") or dict(settings.server_resources),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the pod's own, an emptyDir
    }
