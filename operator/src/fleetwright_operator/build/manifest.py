"""The parts that all children share: identity, labels, owner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_api.spec.custom_object import CustomObject

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that owns the children. They are deleted with it."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.kind, self.name)

    @property
    def selector(self) -> dict[str, str]:
        """Return the labels that select this object's pods.

        It is a subset of all labels, because a selector is immutable.
        """
        return {key: value for key, value in self.labels.items() if key.startswith(names.GROUP)}

    @property
    def reference(self) -> dict[str, Any]:
        return {
            "apiVersion": names.API_VERSION,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    @property
    def hold(self) -> dict[str, Any]:
        """Return an owner reference that keeps an object of another owner alive while this object needs it."""
        return {"apiVersion": names.API_VERSION, "kind": self.kind, "name": self.name, "uid": self.uid}


def owner_of(custom_object: CustomObject) -> Owner:
    return Owner(
        kind=custom_object.kind, namespace=custom_object.namespace, name=custom_object.name, uid=custom_object.uid
    )


def manifest(
    api_version: str,
    kind: str,
    *,
    name: str,
    owner: Owner,
    annotations: Mapping[str, str] | None = None,
    owned: bool = True,
) -> Manifest:
    """Return the metadata of a child. `owned=False` is for objects that outlive their owner."""
    metadata: dict[str, Any] = {"name": name, "namespace": owner.namespace, "labels": owner.labels}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owned:
        metadata["ownerReferences"] = [owner.reference]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
