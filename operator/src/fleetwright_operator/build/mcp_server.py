"""Builds the probe of an McpServer. If the server has a workload, also builds its children.

The pod of the workload has the same restrictions as the pod of an agent.
"""

from collections.abc import Sequence
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import canonical_json, short_hash
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import McpServerSpec, McpServerView, WorkloadSpec
from fleetwright_operator.build.config.tool_access import credential_keys, server_entry
from fleetwright_operator.build.manifest import Manifest, Owner, manifest, owner_of
from fleetwright_operator.build.network.addresses import destination, parse_address, pods
from fleetwright_operator.build.network.egress import EgressRule, Services, dns_rule
from fleetwright_operator.build.network_policy import server_policy
from fleetwright_operator.build.pod.ephemeral_storage import limited, tmp_volume
from fleetwright_operator.build.pod.file_mounts import CONFIG_MAP, SECRET, file_mounts, file_volumes
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS, NamespaceLimits
from fleetwright_operator.build.pod.pod_security import container_security, pull_secrets, sealed_pod
from fleetwright_operator.build.pod.pod_template import apply_patch
from fleetwright_operator.build.probe import Probe, helper_probe, runtime_pod
from fleetwright_operator.settings import Settings

_HOST: Final = "FLEETWRIGHT_MCP_HOST"
"""The variable with the name of the Service, by which the bridge checks the `Host` of requests."""


def is_stdio(workload: WorkloadSpec) -> bool:
    return workload.transport == "Stdio"


def environment_sources(spec: McpServerSpec) -> list[tuple[str, str]]:
    """Return (kind, name) of every object in the workload's environment."""
    sources = spec.workload.env_from if spec.workload else ()
    references = [
        (kind, reference)
        for source in sources
        for kind, reference in ((SECRET, source.secret_ref), (CONFIG_MAP, source.config_map_ref))
    ]
    return [(kind, reference.name) for kind, reference in references if reference is not None]


def server_children(
    server: McpServerView, *, users: Sequence[str], environment: Sequence[str] = (), settings: Settings
) -> list[Manifest]:
    """Return the children. `users` are the agents that name this server; only they and its probes may reach it.

    `environment` are the versions of the Secrets and ConfigMaps in the workload's environment. A process reads its
    environment once, so a new version creates a new pod.
    """
    workload = server.spec.workload
    if workload is None:
        return []
    owner = owner_of(server)
    return [
        server_policy(owner, users=users, port=workload.port, dns=dns_rule(settings)),
        _service(owner, workload.port),
        _deployment(owner, workload, environment, settings),
    ]


def server_probe(
    server: McpServerView,
    *,
    about: Sequence[str],
    services: Services,
    limits: NamespaceLimits = NO_LIMITS,
    settings: Settings,
) -> Probe:
    """Return a probe that lists the server's tools with the credentials of agents. The server's address must resolve.

    Args: `about` names what the answer depends on: the serving pod and the versions of the credentials.
    """
    endpoints = Endpoints(cluster_domain=settings.cluster_domain)
    files = [(SECRET, *key) for key in credential_keys(server)]
    # The probe is denied the same ranges as agents.
    denied = [word for each in settings.stated_ranges for word in ("--denied", str(each))]
    arguments = ["mcp", *denied, canonical_json(server_entry(server, endpoints))]
    probe = Probe(
        owner=owner_of(server),
        pod=runtime_pod(arguments, settings, mounts=file_mounts(files), volumes=file_volumes(files)),
        egress_rules=[dns_rule(settings), _way(server, services, settings)],
        about=about,
    )
    template = server.spec.workload.pod_template if server.spec.workload else None
    return helper_probe(probe, HelperPodSettings(settings=settings, template=template or {}, limits=limits))


def _way(server: McpServerView, services: Services, settings: Settings) -> EgressRule:
    why = "to look at its tools"
    if workload := server.spec.workload:
        labels = {names.MCP_SERVER_LABEL: server.name}
        peers = (pods(labels, namespace=server.namespace),)
        return EgressRule(to="its pods", why=why, peers=peers, ports=(("TCP", workload.port),))
    if (remote := server.spec.remote) is None:
        raise ValueError(f"McpServer {server.name!r} has neither remote nor workload")
    address = parse_address(remote.destination, namespace=server.namespace, settings=settings)
    found = destination(address, services, settings)
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
    owner: Owner, workload: WorkloadSpec, *, environment: Sequence[str] = (), settings: Settings
) -> dict[str, Any]:
    """Return the pod template of a workload before its `podTemplate` is applied."""
    labels = {**owner.labels, names.COMPONENT: "mcpserver"}
    annotations = {names.ENVIRONMENT_ANNOTATION: short_hash(list(environment))} if environment else {}
    return {
        "metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})},
        "spec": {
            **sealed_pod(settings),
            **pull_secrets(secret.name for secret in workload.image_pull_secrets),
            "containers": [_container(owner, workload, settings=settings)],
            "volumes": [tmp_volume(encode(workload.resources), settings.server_resources)],
        },
    }


def _deployment(owner: Owner, workload: WorkloadSpec, environment: Sequence[str], settings: Settings) -> Manifest:
    sealed = server_template(owner, workload, environment=environment, settings=settings)
    return {
        **manifest("apps/v1", "Deployment", name=names.mcp_workload(owner.name), owner=owner),
        "spec": {
            # Streamable HTTP keeps sessions in the server's memory, so a second pod would not know them.
            "replicas": 1,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": owner.selector},
            "template": apply_patch(sealed, workload.pod_template or {}, settings.server_resources),
        },
    }


def _container(owner: Owner, workload: WorkloadSpec, *, settings: Settings) -> dict[str, Any]:
    port = workload.port
    host = f"{names.mcp_workload(owner.name)}.{owner.namespace}.svc.{settings.cluster_domain}"
    # A variable, because the bridge of an earlier version in the user's image would not know an option.
    is_needed = is_stdio(workload) and all(variable.name != _HOST for variable in workload.env)
    known = [{"name": _HOST, "value": host}] if is_needed else []
    sources = [encode(source) for source in workload.env_from]
    return {
        "name": "server",
        "image": workload.image,
        "imagePullPolicy": "IfNotPresent",
        **_program(workload),
        "env": [{"name": "PORT", "value": str(port)}, *known, *(encode(variable) for variable in workload.env)],
        **({"envFrom": sources} if sources else {}),
        "ports": [{"name": "mcp", "containerPort": port, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": "mcp"}, "periodSeconds": 2, "failureThreshold": 3},
        "resources": limited(encode(workload.resources), settings.server_resources),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the pod's own, an emptyDir
    }


def _program(workload: WorkloadSpec) -> dict[str, Any]:
    """Return the container's command. A stdio server runs behind the bridge, which is part of the agent image."""
    if not is_stdio(workload):
        declared = {"command": workload.command, "args": workload.args}
        return {key: list(words) for key, words in declared.items() if words}
    bridge = ["fleetwright-agent", "bridge", "--port", "$(PORT)", "--path", workload.path, "--"]
    return {"command": bridge, "args": [*workload.command, *workload.args]}
