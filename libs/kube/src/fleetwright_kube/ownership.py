"""Decides whether an existing object with a child's name is this child. Pure; every write uses this decision.

An object is ours if its controller is the child's owner. An object without a controller, such as a volume that outlived
its agent, is ours if it has the labels of this owner.
"""

from typing import Any

from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.drift import owns_all
from fleetwright_kube.errors import OwnershipConflictError, UnfinishedDeletionError
from fleetwright_kube.port import Object
from fleetwright_kube.scheme import MANAGED_BY, Scheme


def check_ours(scheme: Scheme, entry: CachedObject, manifest: Object) -> None:
    """Return if the manifest may be written over the cached object.

    Raises:
        OwnershipConflictError: The object is not managed by Fleetwright.
        UnfinishedDeletionError: The object is ours but is being deleted.
    """
    kind = manifest["kind"]  # The cached object may be a metadata-only view with another kind.
    owner = controller_of(manifest)
    controller = entry.controller
    if controller is not None and owner is not None and controller.uid != owner["uid"]:
        if (controller.kind, controller.name) == (owner["kind"], owner["name"]):
            former = f"the deleted {owner['kind']} of that name"
            raise UnfinishedDeletionError(f"{kind} {entry.name!r} still belongs to {former}")
        raise OwnershipConflictError(kind, entry.name, owner=f"{controller.kind} {controller.name!r}")
    controlled = controller is not None and owner is not None
    if not controlled and not _carries_labels(scheme, entry, manifest):
        owner_name = f"{controller.kind} {controller.name!r}" if controller is not None else ""
        raise OwnershipConflictError(kind, entry.name, owner=owner_name)
    if entry.deleting:
        raise UnfinishedDeletionError(f"{kind} {entry.name!r} is being deleted")


def is_current(scheme: Scheme, entry: CachedObject, wanted: Object) -> bool:
    """Return whether the object needs no write: it has the manifest's hash, fields and owners."""
    annotation = scheme.hash_annotation
    same = entry.annotations.get(annotation) == wanted["metadata"]["annotations"][annotation]
    return same and not entry.deleting and owns_all(entry.owned, wanted) and same_owners(entry, wanted)


def same_owners(entry: CachedObject, manifest: Object) -> bool:
    """Return whether the object has the owners of the manifest. If not, the manifest is written again."""
    owner = controller_of(manifest)
    held_by = {each["uid"] for each in manifest["metadata"].get("ownerReferences", ()) if each is not owner}
    same = (entry.controller.uid if entry.controller else None) == (owner["uid"] if owner else None)
    return same and held_by == {holder.uid for holder in entry.holders}


def controller_of(manifest: Object) -> dict[str, Any] | None:
    owners = manifest["metadata"].get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), None)


def _carries_labels(scheme: Scheme, entry: CachedObject, manifest: Object) -> bool:
    ours = (scheme.group, MANAGED_BY)
    return all(
        entry.labels.get(key) == value for key, value in manifest["metadata"]["labels"].items() if key.startswith(ours)
    )
