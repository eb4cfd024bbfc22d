"""Whether an object that has a child's name is that child. Pure; one answer for every write.

Ours is what our owner controls, or, where no controller is written (a volume that outlived its agent, an
owner reference that somebody stripped), what carries the labels of this very owner.
"""

from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.kube.errors import Foreign, Waiting
from fleetwright_operator.kube.port import Object


def check_ours(entry: Entry, manifest: Object) -> None:
    """Returns if the entry may be written as the manifest.

    Raises:
        Foreign: It belongs to somebody else.
        Waiting: It is ours but on its way out.
    """
    kind = manifest["kind"]  # the entry may be a metadata-only view, which is called otherwise
    owner = controller_of(manifest)
    controller = entry.controller
    if controller is not None and owner is not None and controller.uid != owner["uid"]:
        if (controller.kind, controller.name) == (owner["kind"], owner["name"]):
            raise Waiting(1.0, f"{kind} {entry.name} still belongs to the deleted {owner['kind']} of that name")
        raise Foreign(kind, entry.name, owner=f"{controller.kind} {controller.name!r}")
    controlled = controller is not None and owner is not None
    if not controlled and not _carries_labels(entry, manifest):
        owner_name = f"{controller.kind} {controller.name!r}" if controller is not None else ""
        raise Foreign(kind, entry.name, owner=owner_name)
    if entry.deleting:
        raise Waiting(1.0, f"{kind} {entry.name} is being deleted")


def same_owners(entry: Entry, manifest: Object) -> bool:
    """Whoever took the object's controller or holders away, they are written again."""
    owner = controller_of(manifest)
    held_by = {each["uid"] for each in manifest["metadata"].get("ownerReferences", ()) if each is not owner}
    same = (entry.controller.uid if entry.controller else None) == (owner["uid"] if owner else None)
    return same and held_by == {holder.uid for holder in entry.holders}


def controller_of(manifest: Object) -> dict[str, Any] | None:
    owners = manifest["metadata"].get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), None)


def _carries_labels(entry: Entry, manifest: Object) -> bool:
    ours = (names.GROUP, names.MANAGED_BY)
    return all(
        entry.labels.get(key) == value for key, value in manifest["metadata"]["labels"].items() if key.startswith(ours)
    )
