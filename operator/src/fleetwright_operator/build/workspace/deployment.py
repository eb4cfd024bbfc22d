"""The Deployment of a workspace: one pod with the runner, which keeps the files, and the shell, which runs commands.

The two containers do not share their processes. The runner has the digests of accepted tokens and the undo store; the
shell has only the files, its home folder and the socket on which it takes commands. Neither has a token of anything
else.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, empty_dir, limited, sizes
from fleetwright_operator.build.pod.file_mounts import secret_volume
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.pod_security import http_probe, pull_secrets, sealed_pod
from fleetwright_operator.build.workspace.container import program_container
from fleetwright_operator.build.workspace.volume import FILES, files_volume
from fleetwright_operator.settings import Settings

COMPONENT: Final = "workspace"
FOLDER: Final = "/workspace"
_HOME: Final = "/home/workspace"
_PROGRAM: Final = "/fleetwright"
_SOCKETS: Final = "/run/fleetwright"
_SOCKET: Final = f"{_SOCKETS}/executor.sock"
_STATE: Final = "/var/lib/fleetwright"
_TOKENS: Final = "/etc/fleetwright/tokens"
_RUNNER_RESOURCES: Final = {
    "requests": {"cpu": "10m", "memory": "48Mi", RESOURCE: "16Mi"},
    "limits": {"memory": "256Mi", RESOURCE: "64Mi"},
}
_SHELL_RESOURCES: Final = {
    "requests": {"cpu": "50m", "memory": "128Mi", RESOURCE: "64Mi"},
    "limits": {"memory": "1Gi", RESOURCE: "1Gi"},
}
_ENDING_SECONDS: Final = 10


def workspace_selector(agent: str) -> dict[str, str]:
    """Return the labels that select the pod of an agent's workspace, but not the pod that clones its source."""
    return {names.WORKSPACE_LABEL: agent, names.COMPONENT: COMPONENT}


def workspace_deployment(
    owner: Owner,
    workspace: WorkspaceSpec,
    *,
    runs: bool,
    environment: Sequence[Mapping[str, str]] = (),
    helpers: HelperPodSettings,
) -> Manifest:
    """Return the Deployment.

    Args:
        runs: False while the agent is suspended or asleep.
        environment: Variables of the shell.
        helpers: The placement of the pod. The resources of the spec and its runtime class take precedence.
    """
    return {
        **manifest("apps/v1", "Deployment", name=names.workspace(owner.name), owner=owner),
        "spec": {
            # Two pods would write the same files.
            "replicas": 1 if runs else 0,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": workspace_selector(owner.name)},
            "template": _template(owner, workspace, environment, helpers),
        },
    }


def _template(
    owner: Owner, workspace: WorkspaceSpec, environment: Sequence[Mapping[str, str]], helpers: HelperPodSettings
) -> dict[str, Any]:
    settings = helpers.settings
    labels = {
        names.MANAGED_BY: names.FIELD_MANAGER,
        names.NAME: owner.name,
        **workspace_selector(owner.name),
    }
    runtime = workspace.runtime_class_name
    volumes = [
        files_volume(owner, workspace),
        secret_volume("tokens", names.workspace(owner.name)),
        empty_dir("program", "8Mi"),
        empty_dir("sockets", "1Mi"),
    ]
    resources = limited(encode(workspace.resources), _SHELL_RESOURCES, room=sizes(volumes))
    tmp = limited(encode(workspace.resources), _SHELL_RESOURCES)["limits"][RESOURCE]
    pod = {
        **sealed_pod(settings),
        **({"runtimeClassName": runtime} if runtime else {}),
        **pull_secrets([*(secret.name for secret in workspace.image_pull_secrets), *settings.pull_secrets]),
        "shareProcessNamespace": False,
        "terminationGracePeriodSeconds": _ENDING_SECONDS,
        "containers": [_runner(helpers), _shell(workspace, resources, environment)],
        "volumes": [*volumes, empty_dir("runner-tmp", "32Mi"), empty_dir("tmp", tmp)],
    }
    # A user's resources of the shell stay as they are.
    whole = helpers.complete_pod(pod, fitted=["runner"] if encode(workspace.resources) else ["runner", "shell"])
    shell = whole["containers"][-1]
    return {
        "metadata": helpers.merge_metadata(labels),
        "spec": {**whole, "initContainers": [_installer(settings, shell["resources"])]},
    }


def _installer(settings: Settings, resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the init container that copies the command executor from the agent image for the user's image.

    `resources` are those of the shell, which starts later. So the pod needs no more, and a namespace that admits the
    shell admits this container.
    """
    return {
        **program_container("install", settings.agent_image, resources),
        "command": ["python", "-m", "fleetwright_workspace.install", _PROGRAM],
        "volumeMounts": [{"name": "program", "mountPath": _PROGRAM}],
    }


def _runner(helpers: HelperPodSettings) -> dict[str, Any]:
    return {
        **program_container("runner", helpers.settings.agent_image, helpers.merge_resources(_RUNNER_RESOURCES)),
        "command": ["python", "-m", "fleetwright_workspace.runner"],
        "args": [
            f"--root={FOLDER}",
            f"--state={_STATE}",
            f"--executor={_SOCKET}",
            f"--tokens={_TOKENS}/{names.DIGESTS_KEY}",
            f"--listen=0.0.0.0:{names.WORKSPACE_PORT}",
        ],
        "ports": [{"name": "runner", "containerPort": names.WORKSPACE_PORT, "protocol": "TCP"}],
        "startupProbe": http_probe("/healthz", port="runner", period=1, failures=60),
        "readinessProbe": http_probe("/healthz", port="runner", period=5, failures=2),
        "livenessProbe": http_probe("/healthz", port="runner", period=10, failures=3),
        "volumeMounts": [
            {"name": FILES, "mountPath": FOLDER, "subPath": "files"},
            # The shell does not mount this folder, so no command can change what an undo restores.
            {"name": FILES, "mountPath": _STATE, "subPath": "state"},
            {"name": "tokens", "mountPath": _TOKENS, "readOnly": True},
            {"name": "sockets", "mountPath": _SOCKETS},
            {"name": "runner-tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, an emptyDir
        ],
    }


def _shell(
    workspace: WorkspaceSpec, resources: Mapping[str, Any], environment: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    return {
        **program_container("shell", workspace.image, resources),
        "command": ["python3", f"{_PROGRAM}/executor.pyz"],
        "args": [f"--socket={_SOCKET}", f"--root={FOLDER}", f"--home={_HOME}"],
        **({"env": [dict(each) for each in environment]} if environment else {}),
        "workingDir": FOLDER,
        "volumeMounts": [
            {"name": FILES, "mountPath": FOLDER, "subPath": "files"},
            {"name": FILES, "mountPath": _HOME, "subPath": "home"},
            {"name": "program", "mountPath": _PROGRAM, "readOnly": True},
            {"name": "sockets", "mountPath": _SOCKETS},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own, an emptyDir
        ],
    }
