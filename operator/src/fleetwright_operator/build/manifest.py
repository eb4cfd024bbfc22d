"""The shape that all children share: identity, labels, owner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_operator.api import names

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that children belong to and go with."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.kind, self.name)

    @property
    def selector(self) -> dict[str, str]:
        """What finds this object's pods; never the whole label set, because a selector cannot change."""
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
        """Of an object that belongs to another one and must stay while this one needs it."""
        return {"apiVersion": names.API_VERSION, "kind": self.kind, "name": self.name, "uid": self.uid}


def owner_of(custom_object: Mapping[str, Any]) -> Owner:
    metadata = custom_object["metadata"]
    return Owner(
        kind=custom_object["kind"], namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]
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
    """The head of a child; `owned=False` is for what outlives its owner and keeps only the labels."""
    metadata: dict[str, Any] = {"name": name, "namespace": owner.namespace, "labels": owner.labels}
    if annotations:
        metadata["annotations"] = dict(annotations)
    if owned:
        metadata["ownerReferences"] = [owner.reference]
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
