"""The volume of a workspace: a claim of its own, a claim that the user names, or an `emptyDir`."""

from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir

FILES: Final = "files"
"""The name of the volume."""
_DEFAULT_SIZE: Final = "5Gi"


def claim_name(agent: str, workspace: WorkspaceSpec) -> str | None:
    """Return the name of the claim with the files; None if they are ephemeral."""
    if workspace.storage.claim is not None:
        return workspace.storage.claim.name
    return None if workspace.storage.ephemeral else names.workspace(agent)


def files_claim(owner: Owner, workspace: WorkspaceSpec) -> Manifest | None:
    """Return the claim that the operator writes, if it writes one."""
    storage = workspace.storage
    if storage.claim is not None or storage.ephemeral:
        return None
    kind = "PersistentVolumeClaim"
    head = manifest("v1", kind, name=names.workspace(owner.name), owner=owner, owned=not storage.retain)
    class_name = {"storageClassName": storage.storage_class_name} if storage.storage_class_name is not None else {}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": _size(workspace)}}, **class_name}
    return {**head, "spec": claim}


def files_volume(owner: Owner, workspace: WorkspaceSpec) -> dict[str, Any]:
    claim = claim_name(owner.name, workspace)
    if claim is None:
        return empty_dir(FILES, _size(workspace))
    return {"name": FILES, "persistentVolumeClaim": {"claimName": claim}}


def _size(workspace: WorkspaceSpec) -> str:
    return _DEFAULT_SIZE if workspace.storage.size is None else workspace.storage.size
