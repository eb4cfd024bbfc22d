"""The Deployment of one agent: one pod, one writer of its memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.canonical import short_hash
from fleetwright_operator.desired.config import api_key_reference, drain_seconds
from fleetwright_operator.desired.manifest import Manifest, Owner, manifest
from fleetwright_operator.desired.pod import container_security, http_probe, sealed_pod
from fleetwright_operator.desired.volume import memory_volume
from fleetwright_operator.edges import Agent
from fleetwright_operator.settings import Settings
from fleetwright_operator.skill_document import key_to_path

_ROOT = "/etc/fleetwright"
_MEMORY = "/var/lib/fleetwright"
_READ_BY_GROUP = 0o440
_CLOSING_SECONDS = 15
"""After the drain: the rest is ended, readers are told, files are closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The immutable ConfigMap that holds a skill's files, and its keys."""

    name: str
    keys: tuple[str, ...]


def is_suspended(agent: Agent) -> bool:
    return bool(agent["spec"].get("suspend", False))


def agent_deployment(
    owner: Owner, agent: Agent, *, revision: str, snapshots: Mapping[str, Snapshot], settings: Settings
) -> Manifest:
    labels = {**owner.labels, names.COMPONENT: "agent"}
    return {
        **manifest("apps/v1", "Deployment", name=owner.name, owner=owner),
        "spec": {
            # One writer of the memory: never two pods, also when somebody scales by hand.
            "replicas": 0 if is_suspended(agent) else 1,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": owner.selector},
            "template": {
                "metadata": {"labels": labels, "annotations": {names.REVISION_ANNOTATION: revision}},
                "spec": {
                    **sealed_pod(),
                    "serviceAccountName": agent["spec"].get("serviceAccountName", owner.name),
                    **_pull_secrets(agent),
                    "terminationGracePeriodSeconds": drain_seconds(agent, settings) + _CLOSING_SECONDS,
                    "containers": [_container(agent, snapshots, settings)],
                    "volumes": _volumes(owner, agent, revision=revision, snapshots=snapshots),
                },
            },
        },
    }


def _container(agent: Agent, snapshots: Mapping[str, Snapshot], settings: Settings) -> dict[str, Any]:
    return {
        "name": "agent",
        **_program(agent, settings),
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "a2a", "containerPort": names.A2A_PORT, "protocol": "TCP"},
            {"name": "ops", "containerPort": names.OPS_PORT, "protocol": "TCP"},
        ],
        "startupProbe": http_probe("/readyz", port="ops", period=1, failures=180),
        "readinessProbe": http_probe("/readyz", port="ops", period=5, failures=2),
        "livenessProbe": http_probe("/healthz", port="ops", period=10, failures=3),
        "resources": agent["spec"].get("resources") or dict(settings.agent_resources),
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _mounts(agent, sorted(snapshots)),
    }


def _program(agent: Agent, settings: Settings) -> dict[str, Any]:
    """Somebody else's image starts in its own way, and by the runtime contract from there on."""
    own = agent["spec"].get("image")
    return {"image": own} if own else {"image": settings.agent_image, "command": ["fleetwright-agent", "serve"]}


def _pull_secrets(agent: Agent) -> dict[str, Any]:
    secrets = agent["spec"].get("imagePullSecrets")
    return {"imagePullSecrets": [{"name": secret["name"]} for secret in secrets]} if secrets else {}


def _mounts(agent: Agent, skills: Sequence[str]) -> list[dict[str, Any]]:
    key = api_key_reference(agent)
    return [
        {"name": "config", "mountPath": _ROOT, "readOnly": True},
        {"name": "auth", "mountPath": f"{_ROOT}/auth", "readOnly": True},
        *([{"name": "api-key", "mountPath": f"{_ROOT}/secrets/{key[0]}", "readOnly": True}] if key else []),
        *({"name": _skill_volume(name), "mountPath": f"{_ROOT}/skills/{name}", "readOnly": True} for name in skills),
        {"name": "memory", "mountPath": _MEMORY},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
    ]


def _volumes(owner: Owner, agent: Agent, *, revision: str, snapshots: Mapping[str, Snapshot]) -> list[dict[str, Any]]:
    key = api_key_reference(agent)
    return [
        _config_map(
            "config",
            names.agent_config(owner.name, revision),
            [
                {"key": names.CONFIG_KEY, "path": "agent.json"},
                {"key": names.CARD_KEY, "path": "card/agent-card.json"},
            ],
        ),
        _secret("auth", names.agent_auth(owner.name)),
        *([_secret("api-key", key[0], [{"key": key[1], "path": key[1]}])] if key else []),
        *(_skill(name, snapshot) for name, snapshot in sorted(snapshots.items())),
        memory_volume(owner, agent),
        {"name": "tmp", "emptyDir": {}},
    ]


def _skill(name: str, snapshot: Snapshot) -> dict[str, Any]:
    items = [{"key": key, "path": key_to_path(key)} for key in sorted(snapshot.keys)]
    return _config_map(_skill_volume(name), snapshot.name, items)


def _skill_volume(name: str) -> str:
    # A volume's name has at most 63 characters, and a skill's alone may have as many.
    volume = f"skill-{name}"
    return volume if len(volume) <= 63 else f"skill-{short_hash(name)}"


def _config_map(volume: str, name: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": volume, "configMap": {"name": name, "defaultMode": _READ_BY_GROUP, "items": items}}


def _secret(volume: str, name: str, items: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    secret: dict[str, Any] = {"secretName": name, "defaultMode": _READ_BY_GROUP}
    return {"name": volume, "secret": {**secret, "items": items} if items else secret}
