"""The volume of a workspace: a claim of its own, a claim that the user names, or an `emptyDir`."""

from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_operator.build.manifest import Owner
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir
from fleetwright_operator.build.volume_claim import ClaimRequest

FILES: Final = "files"
"""The name of the volume."""
_DEFAULT_SIZE: Final = "5Gi"


def claim_name(agent: str, workspace: WorkspaceSpec) -> str | None:
    """Return the name of the claim with the files; None if they are ephemeral."""
    if workspace.storage.claim is not None:
        return workspace.storage.claim.name
    return None if workspace.storage.ephemeral else names.workspace(agent)


def files_request(agent: AgentView) -> ClaimRequest | None:
    """Return the volume claim that the operator writes for the workspace, if it writes one."""
    workspace = agent.spec.workspace
    if workspace is None or workspace.storage.claim is not None or workspace.storage.ephemeral:
        return None
    storage = workspace.storage
    return ClaimRequest(
        field="spec.workspace.storage",
        name=names.workspace(agent.name),
        size=_size(workspace),
        is_default_size=storage.size is None,
        storage_class=storage.storage_class_name,
        retain=storage.retain,
    )


def files_volume(owner: Owner, workspace: WorkspaceSpec) -> dict[str, Any]:
    claim = claim_name(owner.name, workspace)
    if claim is None:
        return empty_dir(FILES, _size(workspace))
    return {"name": FILES, "persistentVolumeClaim": {"claimName": claim}}


def _size(workspace: WorkspaceSpec) -> str:
    return _DEFAULT_SIZE if workspace.storage.size is None else workspace.storage.size
