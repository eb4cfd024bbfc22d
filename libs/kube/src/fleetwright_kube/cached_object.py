"""The cached projection of an object: its identity, its owners, the fields that we own, and the values that are used.

A cache of whole objects would consist mostly of `managedFields` and of specs that the operator never reads.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from sys import intern
from typing import Any

from fleetwright_kube.interning import InternedDict, InternPool
from fleetwright_kube.port import Object
from fleetwright_kube.scheme import Scheme

_SORTED = json.JSONEncoder(sort_keys=True)
Fields = Mapping[str, Any]
_LABELS: InternPool[InternedDict] = InternPool()
_FIELDS: InternPool[InternedDict] = InternPool()


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class OwnedBy:
    kind: str
    name: str
    uid: str


_OWNERS: InternPool[OwnedBy] = InternPool()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedObject:
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int = 0
    written_generation: int = 0
    """The generation after the last write of this process; that of the first version in the cache if it wrote none.

    Other programs raise the generation too. The API server does so for each changed annotation of a Deployment.
    """
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only annotations of the scheme's group."""
    is_ours: bool = False
    """True if the label `app.kubernetes.io/managed-by` names this controller."""
    controller: OwnedBy | None = None
    holders: frozenset[OwnedBy] = frozenset()
    """The owners other than the controller. The garbage collector keeps the object while any owner exists."""
    owned: Fields = field(default_factory=dict)
    """The `fieldsV1` of the fields that we applied and still own."""
    projection: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)


def cached_object(scheme: Scheme, kind: str, body: Object) -> CachedObject:
    """Return the projection. `kind` is the name of the kind in the cache; a metadata-only object does not state it."""
    metadata = body["metadata"]
    return CachedObject(
        kind=kind,
        namespace=intern(metadata.get("namespace", "")),
        name=intern(metadata["name"]),
        uid=intern(metadata["uid"]),
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        written_generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        deleting="deletionTimestamp" in metadata,
        labels=_labels(metadata),
        is_ours=scheme.is_ours(metadata.get("labels", {})),
        annotations={intern(k): v for k, v in metadata.get("annotations", {}).items() if k.startswith(scheme.group)},
        controller=next(iter(_owners(metadata, controlling=True)), None),
        holders=_owners(metadata, controlling=False),
        owned=_owned(scheme.field_manager, metadata),
        projection=scheme.projections[kind](body) if kind in scheme.projections else {},
    )


def _owners(metadata: Mapping[str, Any], *, controlling: bool) -> frozenset[OwnedBy]:
    return frozenset(
        _owner(owner["kind"], owner["name"], owner["uid"])
        for owner in metadata.get("ownerReferences", ())
        if bool(owner.get("controller")) == controlling
    )


def _owned(field_manager: str, metadata: Mapping[str, Any]) -> Fields:
    for manager in metadata.get("managedFields", ()):
        applied = manager.get("operation") == "Apply" and not manager.get("subresource")
        if manager.get("manager") == field_manager and applied:
            fields = {**manager.get("fieldsV1", {})}
            # Owner references contain the owner's uid. With them, objects of different owners could share no fields.
            fields["f:metadata"] = {
                key: value for key, value in fields.get("f:metadata", {}).items() if key != "f:ownerReferences"
            }
            return _fields(_SORTED.encode(fields))
    return {}


def _labels(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    labels = metadata.get("labels", {})
    key = _digest(_SORTED.encode(labels))
    return _LABELS.of(key, lambda: InternedDict((intern(name), intern(value)) for name, value in labels.items()))


def _owner(kind: str, name: str, uid: str) -> OwnedBy:
    owner = (intern(kind), intern(name), intern(uid))
    return _OWNERS.of(owner, lambda: OwnedBy(kind=owner[0], name=owner[1], uid=owner[2]))


def _fields(text: str) -> Fields:
    return _FIELDS.of(_digest(text), lambda: InternedDict(json.loads(text)))


def _digest(text: str) -> bytes:
    """Return a short key for a text that need not be stored."""
    return sha256(text.encode()).digest()
