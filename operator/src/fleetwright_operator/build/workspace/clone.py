"""The pod that clones the source of a workspace, with its NetworkPolicy. Pure.

It is a pod of its own, so that neither the git credentials nor the route to the git server reach the shell. It mounts
the volume of the workspace before the workspace's own pod exists, runs once, and never writes over existing files.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceGitSpec
from fleetwright_operator.build.manifest import Manifest, Owner, owner_of
from fleetwright_operator.build.network.addresses import Destination
from fleetwright_operator.build.network.egress import EgressRule, dns_rule, policy_rules
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, tmp_volume
from fleetwright_operator.build.pod.git_access import git_access_arguments, git_mounts, git_volumes
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.pod_security import container_security, pull_secrets, sealed_pod
from fleetwright_operator.build.workspace.deployment import FOLDER
from fleetwright_operator.build.workspace.volume import FILES, files_volume
from fleetwright_operator.settings import Settings

COMPONENT: Final = "workspace-clone"
CONTAINER: Final = "clone"
GIT_FIELD: Final = "spec.workspace.source.git"
_SECONDS: Final = 600
_ENDING_SECONDS: Final = 5
_RESOURCES: Final = {
    "requests": {"cpu": "20m", "memory": "96Mi", RESOURCE: "16Mi"},
    "limits": {"memory": "1Gi", RESOURCE: "1Gi"},
}


def git_source(agent: AgentView) -> WorkspaceGitSpec | None:
    workspace = agent.spec.workspace
    return workspace.source.git if workspace and workspace.source else None


def clone_input_hash(agent: AgentView, versions: Sequence[str]) -> str:
    """Return a hash of everything that the result of a clone depends on. `versions` are those of the Secrets."""
    git = git_source(agent)
    authority, proxy = (git.ca_secret_ref, git.proxy_url) if git else (None, None)
    access = [*([authority.name, authority.key] if authority else []), *([proxy] if proxy is not None else [])]
    return short_hash([agent.uid, git.url if git else "", git.ref if git else "", *versions, *access])


def clone_prefix(agent: str, input_hash: str) -> str:
    """Return the start of the names of all pods that clone this source, wherever they are placed."""
    return f"{agent}-workspace-{input_hash}-"


def clone_manifests(
    agent: AgentView, git: WorkspaceGitSpec, *, input_hash: str, found: Destination, helpers: HelperPodSettings
) -> list[Manifest]:
    """Return the policy before the pod, so that the pod never runs without it.

    Their name contains a hash of the pod, because most fields of a pod are immutable.
    """
    owner, settings = owner_of(agent), helpers.settings
    template = {
        "metadata": helpers.merge_metadata(_labels(owner)),
        "spec": helpers.complete_single_pod(_pod(owner, agent, git, settings)),
    }
    name = f"{clone_prefix(agent.name, input_hash)}{short_hash(template)}"
    rule = EgressRule(to=found.text, why="to clone", peers=found.peers, ports=(("TCP", found.port),))
    return [
        _policy(owner, name, [dns_rule(settings), rule]),
        _pod_from_template(_head("v1", "Pod", owner, name), template),
    ]


def _pod_from_template(head: Manifest, template: Mapping[str, Any]) -> Manifest:
    labels = {**template["metadata"]["labels"], **head["metadata"]["labels"]}
    metadata = {**head["metadata"], **template["metadata"], "labels": labels}
    return {**head, "metadata": metadata, "spec": template["spec"]}


def _policy(owner: Owner, name: str, rules: list[EgressRule]) -> Manifest:
    return {
        **_head("networking.k8s.io/v1", "NetworkPolicy", owner, name),
        "spec": {
            "podSelector": {"matchLabels": _labels(owner)},
            "policyTypes": ["Ingress", "Egress"],
            "egress": policy_rules(rules),
        },
    }


def _pod(owner: Owner, agent: AgentView, git: WorkspaceGitSpec, settings: Settings) -> dict[str, Any]:
    workspace = agent.spec.workspace
    if workspace is None:
        raise ValueError(f"Agent {agent.name!r} has no workspace")
    arguments = [
        f"--url={git.url}",
        *([f"--ref={git.ref}"] if git.ref else []),
        *git_access_arguments(git),
        f"--into={FOLDER}",
    ]
    container = {
        "name": CONTAINER,
        "image": settings.agent_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["fleetwright-agent", "fetch", "workspace", *arguments],
        "resources": _RESOURCES,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": FILES, "mountPath": FOLDER, "subPath": "files"},
            *git_mounts("git", git),
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the pod's own, an emptyDir
        ],
    }
    return {
        **sealed_pod(settings),
        **pull_secrets(settings.pull_secrets),
        "containers": [container],
        "volumes": [
            files_volume(owner, workspace),
            *git_volumes("git", git),
            tmp_volume(_RESOURCES, {}),
        ],
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _SECONDS,
        "terminationGracePeriodSeconds": _ENDING_SECONDS,
    }


def _head(api_version: str, kind: str, owner: Owner, name: str) -> Manifest:
    metadata: Mapping[str, Any] = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {names.MANAGED_BY: names.FIELD_MANAGER, names.NAME: owner.name, **_labels(owner)},
        "ownerReferences": [owner.reference],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": dict(metadata)}


def _labels(owner: Owner) -> dict[str, str]:
    return {names.WORKSPACE_LABEL: owner.name, names.COMPONENT: COMPONENT}
