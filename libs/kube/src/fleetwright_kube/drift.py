"""Detects drift of a child from its manifest, by a hash of the manifest and by the fields that we own.

The hash finds changes of the manifest. `managedFields` shows every field that another manager has changed or removed.
A comparison of values would report false drift for values that the server normalises (`1000m` becomes `1`).
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from fleetwright_kube.cached_object import Fields
from fleetwright_kube.port import Object
from fleetwright_kube.scheme import Scheme

_IDENTITY = {"name", "namespace", "uid", "resourceVersion", "ownerReferences"}
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def with_hash(scheme: Scheme, manifest: Object) -> Object:
    """Return the manifest with an annotation that contains its hash."""
    metadata = manifest["metadata"]
    hashed = {scheme.hash_annotation: sha256(_SORTED.encode(manifest).encode()).hexdigest()[:16]}
    return {**manifest, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **hashed}}}


def owns_all(owned: Fields, manifest: Object) -> bool:
    """Return whether we still own every field of a manifest from `with_hash`."""
    if not owned:
        return False
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _IDENTITY}
    rest = {key: value for key, value in manifest.items() if key not in {"apiVersion", "kind", "metadata"}}
    return _covers(owned, {**rest, "metadata": metadata})


def is_shared(scheme: Scheme, body: Object) -> bool:
    """Return whether another manager owns any field besides metadata and status."""
    return any(
        set(manager.get("fieldsV1", {})) - {"f:metadata", "f:status"}
        for manager in body["metadata"].get("managedFields", ())
        if (manager.get("manager"), manager.get("operation")) != (scheme.field_manager, "Apply")
    )


def _covers(fields: Fields, desired: Any) -> bool:
    if set(fields) <= {"."}:
        return True  # A leaf, or a value that is owned as a whole.
    if isinstance(desired, Mapping):
        return all(
            f"f:{key}" in fields and _covers(fields[f"f:{key}"], value)
            for key, value in desired.items()
            if value is not None
        )
    if isinstance(desired, list):
        return all(_covers_item(fields, item) for item in desired)
    return True


def _covers_item(fields: Fields, item: Any) -> bool:
    if not isinstance(item, Mapping):
        return f"v:{json.dumps(item)}" in fields
    for key, below in fields.items():
        if key.startswith("k:") and json.loads(key[2:]).items() <= item.items():
            return _covers(below, item)
    return False
