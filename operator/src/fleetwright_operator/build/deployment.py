"""The Deployment of one agent: one pod, the single writer of its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.skill_document import key_to_path
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_operator.build.agent_config import drain_seconds
from fleetwright_operator.build.config.gateway import calls_gateway, token_mount, token_volume
from fleetwright_operator.build.config.push import KEYS_FOLDER, offers_push
from fleetwright_operator.build.config.tool_access import credential_keys
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.pod.ephemeral_storage import limited, sizes, tmp_volume
from fleetwright_operator.build.pod.file_mounts import ROOT as _ROOT
from fleetwright_operator.build.pod.file_mounts import (
    SECRET,
    File,
    config_map_volume,
    file_mounts,
    file_volumes,
    secret_volume,
)
from fleetwright_operator.build.pod.file_references import file_references
from fleetwright_operator.build.pod.memory_volume import memory_volume
from fleetwright_operator.build.pod.pod_security import container_security, http_probe, pull_secrets, sealed_pod
from fleetwright_operator.build.pod.pod_template import apply_patch
from fleetwright_operator.build.pod.skill_source import (
    RemoteSkill,
    fetching_container,
    image_pull_secrets,
    remote_volumes,
)
from fleetwright_operator.settings import Settings

Servers = Mapping[str, McpServerView]
Peers = Mapping[str, AgentView]
CONTAINER = "agent"
STARTUP_SECONDS = 180
"""The deadline of the startup probe, which asks once a second."""
_MEMORY = "/var/lib/fleetwright"
_CLOSING_SECONDS = 15
"""Seconds after the drain for ending tasks, closing streams and closing files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillSnapshot:
    """The immutable ConfigMap with a skill's files, and its keys."""

    name: str
    keys: tuple[str, ...]


Skills = Mapping[str, SkillSnapshot | RemoteSkill]
"""By skill name: the source of its files."""


def agent_deployment(
    owner: Owner,
    spec: AgentSpec,
    *,
    revision: str,
    snapshots: Skills,
    servers: Servers,
    peers: Peers | None = None,
    environment: Sequence[str] = (),
    settings: Settings,
) -> Manifest:
    """Return the Deployment.

    `peers` are Agents by name, with every peer that the agent names. `environment` are the versions of the objects in
    the patch's environment; a new version creates a new pod.
    """
    sealed = agent_template(
        owner, spec, revision=revision, snapshots=snapshots, servers=servers, peers=peers, settings=settings
    )
    patch = spec.pod_template
    template = _patch_template(sealed, patch, settings) if patch else sealed
    if environment:
        template["metadata"]["annotations"][names.ENVIRONMENT_ANNOTATION] = short_hash(list(environment))
    annotations = {names.TEMPLATE_ANNOTATION: short_hash(template)}
    head = manifest("apps/v1", "Deployment", name=owner.name, owner=owner, annotations=annotations)
    if spec.fleet.parent is not None:
        # The pod template does not get this label, because a change of the parent would then restart the pod.
        head["metadata"]["labels"] = {**owner.labels, names.PARENT_LABEL: spec.fleet.parent.name}
    return {
        **head,
        "spec": {
            # The memory has a single writer, so there are never two pods, even if a user scales the Deployment.
            "replicas": 0 if spec.suspend else 1,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": owner.selector},
            "template": template,
        },
    }


def _patch_template(template: Mapping[str, Any], patch: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the template with the patch. Containers that fetch skills get the patched resources of the agent, too."""
    fetching = {container["name"] for container in template["spec"].get("initContainers", ())}
    whole = apply_patch(template, patch, settings.agent_resources)
    main = next(container for container in whole["spec"]["containers"] if container["name"] == CONTAINER)
    for container in whole["spec"].get("initContainers", ()):
        if container["name"] in fetching:
            container["resources"] = dict(main["resources"])
    return whole


def agent_template(
    owner: Owner,
    spec: AgentSpec,
    *,
    revision: str,
    snapshots: Skills,
    servers: Servers,
    peers: Peers | None = None,
    settings: Settings,
) -> dict[str, Any]:
    """Return the agent's pod template before a `podTemplate` patch is applied."""
    files = _files(spec, servers)
    at_gateway = calls_gateway(spec, peers or {}, settings)
    volumes = _volumes(owner, spec, revision=revision, snapshots=snapshots, files=files)
    own = encode(spec.resources)
    resources = limited(own, settings.agent_resources, room=sizes(volumes))
    labels = {**owner.labels, names.COMPONENT: "agent"}
    return {
        "metadata": {"labels": labels, "annotations": {names.REVISION_ANNOTATION: revision}},
        "spec": {
            **sealed_pod(settings),
            "serviceAccountName": owner.name if spec.service_account_name is None else spec.service_account_name,
            **_pull_secrets(spec, snapshots, settings),
            "terminationGracePeriodSeconds": drain_seconds(spec, settings) + _CLOSING_SECONDS,
            **_fetching(snapshots, resources, settings),
            "containers": [_container(spec, snapshots, files, resources, settings, at_gateway=at_gateway)],
            "volumes": [
                *volumes,
                *([token_volume()] if at_gateway else []),
                tmp_volume(own, settings.agent_resources),
            ],
        },
    }


def _container(
    spec: AgentSpec,
    snapshots: Skills,
    files: Sequence[File],
    resources: Mapping[str, Any],
    settings: Settings,
    *,
    at_gateway: bool,
) -> dict[str, Any]:
    return {
        "name": CONTAINER,
        **_program(spec, settings),
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "a2a", "containerPort": names.A2A_PORT, "protocol": "TCP"},
            {"name": "ops", "containerPort": names.OPS_PORT, "protocol": "TCP"},
        ],
        # An agent has started once it answers. It may wait for the memory volume for as long as another pod drains.
        "startupProbe": http_probe("/healthz", port="ops", period=1, failures=STARTUP_SECONDS),
        "readinessProbe": http_probe("/readyz", port="ops", period=5, failures=2),
        "livenessProbe": http_probe("/healthz", port="ops", period=10, failures=3),
        "resources": dict(resources),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *_mounts(spec, files, sorted(snapshots)),
            *([token_mount()] if at_gateway else []),
        ],
    }


def _program(spec: AgentSpec, settings: Settings) -> dict[str, Any]:
    """A custom image runs its own command, which must follow the runtime contract."""
    return (
        {"image": spec.image}
        if spec.image
        else {"image": settings.agent_image, "command": ["fleetwright-agent", "serve"]}
    )


def _pull_secrets(spec: AgentSpec, skills: Skills, settings: Settings) -> dict[str, Any]:
    own = [secret.name for secret in spec.image_pull_secrets]
    # A skill is fetched with the installation's agent image, even if the agent has a custom one.
    usual = settings.pull_secrets if not own or _fetching(skills, {}, settings) else ()
    return pull_secrets([*own, *usual, *image_pull_secrets(list(_remote(skills).values()))])


def _fetching(skills: Skills, resources: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    containers = [
        container
        for name, remote in sorted(_remote(skills).items())
        for container in fetching_container(name, skill_volume(name), remote, resources, settings)
    ]
    return {"initContainers": containers} if containers else {}


def _remote(skills: Skills) -> dict[str, RemoteSkill]:
    return {name: skill for name, skill in skills.items() if isinstance(skill, RemoteSkill)}


def _mounts(spec: AgentSpec, files: Sequence[File], skills: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"name": "config", "mountPath": _ROOT, "readOnly": True},
        {"name": "card", "mountPath": f"{_ROOT}/card", "readOnly": True},
        {"name": "auth", "mountPath": f"{_ROOT}/auth", "readOnly": True},
        *([{"name": "push", "mountPath": f"{_ROOT}/{KEYS_FOLDER}", "readOnly": True}] if offers_push(spec) else []),
        *file_mounts(files),
        *({"name": skill_volume(name), "mountPath": f"{_ROOT}/skills/{name}", "readOnly": True} for name in skills),
        {"name": "memory", "mountPath": _MEMORY},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
    ]


def _volumes(
    owner: Owner, spec: AgentSpec, *, revision: str, snapshots: Skills, files: Sequence[File]
) -> list[dict[str, Any]]:
    return [
        config_map_volume(
            "config", names.agent_config(owner.name, revision), [{"key": names.CONFIG_KEY, "path": "agent.json"}]
        ),
        config_map_volume("card", names.agent_card(owner.name)),
        secret_volume("auth", names.agent_auth(owner.name)),
        *([secret_volume("push", names.agent_push(owner.name))] if offers_push(spec) else []),
        *file_volumes(files),
        *(volume for name, skill in sorted(snapshots.items()) for volume in _skill(name, skill)),
        memory_volume(owner, spec),
    ]


def _files(spec: AgentSpec, servers: Servers) -> list[File]:
    """Return the Secret and ConfigMap keys that the pod mounts. It mounts no other keys of these objects."""
    own = [(reference.kind, reference.name, reference.key) for reference in file_references(spec)]
    return own + [(SECRET, *key) for server in servers.values() for key in credential_keys(server)]


def _skill(name: str, skill: SkillSnapshot | RemoteSkill) -> list[dict[str, Any]]:
    if isinstance(skill, RemoteSkill):
        return remote_volumes(skill_volume(name), skill)
    items = [{"key": key, "path": key_to_path(key)} for key in sorted(skill.keys)]
    return [config_map_volume(skill_volume(name), skill.name, items)]


def skill_volume(name: str) -> str:
    """Return the name of the volume with the files of a skill, whatever their source."""
    # A volume's name has at most 63 characters, and a skill's name alone may have 63.
    volume = f"skill-{name}"
    return volume if len(volume) <= 63 else f"skill-{short_hash(name)}"
