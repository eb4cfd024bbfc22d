"""The children of an McpServer with a workload, as restricted as an agent's, and the probe of any McpServer."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json, short_hash
from fleetwright_api.endpoints import DEFAULT_MCP_PATH, DEFAULT_MCP_PORT, Endpoints
from fleetwright_operator.build.config.tool_access import credential_keys, server_entry
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.addresses import destination, parse_address, pods
from fleetwright_operator.build.network.egress import EgressRule, Services, dns_rule
from fleetwright_operator.build.network_policy import server_policy
from fleetwright_operator.build.pod.ephemeral_storage import limited, tmp_volume
from fleetwright_operator.build.pod.mounted_files import SECRET, file_mounts, file_volumes
from fleetwright_operator.build.pod.pod_security import container_security, pull_secrets, sealed_pod
from fleetwright_operator.build.pod.pod_template import apply_patch
from fleetwright_operator.build.probe import Probe, runtime_pod
from fleetwright_operator.settings import Settings

_SOURCES = {"secretRef": "Secret", "configMapRef": "ConfigMap"}


def is_stdio(workload: Mapping[str, Any]) -> bool:
    return bool(workload.get("transport") == "Stdio")


def environment_sources(server: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (kind, name) of every object in the workload's environment."""
    sources = server["spec"].get("workload", {}).get("envFrom", ())
    return [(kind, source[key]["name"]) for source in sources for key, kind in _SOURCES.items() if key in source]


def server_children(
    server: Mapping[str, Any], *, users: Sequence[str], environment: Sequence[str] = (), settings: Settings
) -> list[Manifest]:
    """Return the children. `users` are the agents that name this server; only they and its probes may reach it.

    `environment` are the versions of the environment's objects. A process reads its environment once, so a new version
    creates a new pod.
    """
    workload = server["spec"].get("workload")
    if workload is None:
        return []
    owner = owner_of(server)
    port = workload.get("port", DEFAULT_MCP_PORT)
    return [
        server_policy(owner, users=users, port=port, dns=dns_rule(settings)),
        _service(owner, port),
        _deployment(server, environment, settings),
    ]


def server_probe(server: Mapping[str, Any], *, about: Sequence[str], services: Services, settings: Settings) -> Probe:
    """Return a probe that lists the server's tools with the agents' credentials. The server's address must resolve.

    Args: `about` names what the answer depends on: the serving pod and the versions of the credentials.
    """
    endpoints = Endpoints(cluster_domain=settings.cluster_domain)
    files = [(SECRET, *key) for key in credential_keys(server)]
    # The probe is denied the same ranges as agents.
    denied = [word for each in settings.stated_ranges for word in ("--denied", str(each))]
    arguments = ["mcp", *denied, canonical_json(server_entry(server, endpoints))]
    return Probe(
        owner=owner_of(server),
        pod=runtime_pod(arguments, settings, mounts=file_mounts(files), volumes=file_volumes(files)),
        egress_rules=[dns_rule(settings), _way(server, services, settings)],
        about=about,
    )


def _way(server: Mapping[str, Any], services: Services, settings: Settings) -> EgressRule:
    space, why = server["metadata"]["namespace"], "to look at its tools"
    if workload := server["spec"].get("workload"):
        labels = {names.MCP_SERVER_LABEL: server["metadata"]["name"]}
        ports: tuple[tuple[str, int | str], ...] = (("TCP", workload.get("port", DEFAULT_MCP_PORT)),)
        return EgressRule(to="its pods", why=why, peers=(pods(labels, namespace=space),), ports=ports)
    url = server["spec"]["remote"]["url"]
    found = destination(parse_address(url, namespace=space, settings=settings), services, settings)
    if isinstance(found, str):
        raise ValueError(found)
    return EgressRule(to=found.text, why=why, peers=found.peers, ports=(("TCP", found.port),))


def _service(owner: Owner, port: int) -> Manifest:
    entry = {"name": "mcp", "port": port, "targetPort": "mcp", "protocol": "TCP", "appProtocol": "http"}
    return {
        **manifest("v1", "Service", name=names.mcp_workload(owner.name), owner=owner),
        "spec": {"type": "ClusterIP", "selector": owner.selector, "ports": [entry]},
    }


def server_template(
    server: Mapping[str, Any], *, environment: Sequence[str] = (), settings: Settings
) -> dict[str, Any]:
    """Return the pod template of a workload before its `podTemplate` is applied."""
    owner, workload = owner_of(server), server["spec"]["workload"]
    labels = {**owner.labels, names.COMPONENT: "mcpserver"}
    annotations = {names.ENVIRONMENT_ANNOTATION: short_hash(list(environment))} if environment else {}
    return {
        "metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})},
        "spec": {
            **sealed_pod(),
            **pull_secrets(secret["name"] for secret in workload.get("imagePullSecrets", ())),
            "containers": [_container(workload, settings=settings)],
            "volumes": [tmp_volume(workload.get("resources", {}), settings.server_resources)],
        },
    }


def _deployment(server: Mapping[str, Any], environment: Sequence[str], settings: Settings) -> Manifest:
    owner = owner_of(server)
    sealed = server_template(server, environment=environment, settings=settings)
    return {
        **manifest("apps/v1", "Deployment", name=names.mcp_workload(owner.name), owner=owner),
        "spec": {
            # Streamable HTTP keeps sessions in the server's memory, so a second pod would not know them.
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": owner.selector},
            "template": apply_patch(
                sealed, server["spec"]["workload"].get("podTemplate", {}), settings.server_resources
            ),
        },
    }


def _container(workload: Mapping[str, Any], *, settings: Settings) -> dict[str, Any]:
    port = workload.get("port", DEFAULT_MCP_PORT)
    sources = [dict(source) for source in workload.get("envFrom", ())]
    return {
        "name": "server",
        "image": workload["image"],
        "imagePullPolicy": "IfNotPresent",
        **_program(workload),
        "env": [{"name": "PORT", "value": str(port)}, *(dict(variable) for variable in workload.get("env", ()))],
        **({"envFrom": sources} if sources else {}),
        "ports": [{"name": "mcp", "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": "mcp"}, "periodSeconds": 2, "failureThreshold": 3},
        "resources": limited(workload.get("resources", {}), settings.server_resources),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the pod's own, an emptyDir
    }


def _program(workload: Mapping[str, Any]) -> dict[str, Any]:
    """A stdio server runs behind the bridge, which its image copies from the agent image."""
    given = {key: list(workload[key]) for key in ("command", "args") if workload.get(key)}
    if not is_stdio(workload):
        return given
    path = workload.get("path", DEFAULT_MCP_PATH)
    bridge = ["fleetwright-agent", "bridge", "--port", "$(PORT)", "--path", path, "--"]
    return {"command": bridge, "args": [*given["command"], *given.get("args", ())]}
