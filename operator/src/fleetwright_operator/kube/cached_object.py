"""The cached projection of an object: identity, owner, our fields, and the few facts that decisions need.

A cache of whole objects would consist mostly of `managedFields` and of specs that are never read.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from sys import intern
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.kube.interning import InternedDict, InternPool
from fleetwright_operator.kube.port import Object

_SORTED = json.JSONEncoder(sort_keys=True)
_OWN_KINDS = {names.AGENT, names.SKILL, names.MCP_SERVER}
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
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only annotations of the group fleetwright.dev."""
    controller: OwnedBy | None = None
    holders: frozenset[OwnedBy] = frozenset()
    """The owners besides the controller. The object is kept while one of them exists."""
    owned: Fields = field(default_factory=dict)
    """The `fieldsV1` of what we applied and still own."""
    projection: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, str, str]:
        return (self.kind, self.namespace, self.name)

    @property
    def is_ours(self) -> bool:
        return self.labels.get(names.MANAGED_BY) == names.FIELD_MANAGER

    @property
    def is_probe(self) -> bool:
        return self.labels.get(names.COMPONENT) == names.PROBE


def cached_object(kind: str, body: Object) -> CachedObject:
    """Return the projection. `kind` is the kind in the cache, which a metadata-only object does not contain."""
    metadata = body["metadata"]
    return CachedObject(
        kind=kind,
        namespace=intern(metadata.get("namespace", "")),
        name=intern(metadata["name"]),
        uid=intern(metadata["uid"]),
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        deleting="deletionTimestamp" in metadata,
        labels=_labels(metadata),
        annotations={intern(k): v for k, v in metadata.get("annotations", {}).items() if k.startswith(names.GROUP)},
        controller=next(iter(_owners(metadata, controlling=True)), None),
        holders=_owners(metadata, controlling=False),
        owned=_owned(metadata),
        projection=_PROJECTIONS[kind](body) if kind in _PROJECTIONS else {},
    )


def _owners(metadata: Mapping[str, Any], *, controlling: bool) -> frozenset[OwnedBy]:
    return frozenset(
        _owner(owner["kind"], owner["name"], owner["uid"])
        for owner in metadata.get("ownerReferences", ())
        if bool(owner.get("controller")) == controlling
    )


def _owned(metadata: Mapping[str, Any]) -> Fields:
    for manager in metadata.get("managedFields", ()):
        applied = manager.get("operation") == "Apply" and not manager.get("subresource")
        if manager.get("manager") == names.FIELD_MANAGER and applied:
            fields = {**manager.get("fieldsV1", {})}
            # Owner references contain the owner's uid, so with them no two sets of fields would be equal.
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


def _custom(kind: str, body: Object) -> dict[str, Any]:
    kept = ("name", "namespace", "uid", "generation", "creationTimestamp")
    metadata = {key: body["metadata"][key] for key in kept if key in body["metadata"]}
    parts = {key: _lean(body.get(key, {})) for key in ("spec", "status")}
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": metadata, **parts}


def _lean(value: Any) -> Any:
    """Return the same value with interned strings, because thousands of specs and conditions share the same words."""
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, dict):
        return {intern(key): _lean(below) for key, below in value.items()}
    return [_lean(below) for below in value] if isinstance(value, list) else value


def _deployment(body: Object) -> dict[str, Any]:
    template = body["spec"]["template"]
    volumes = template["spec"].get("volumes", ())
    return {
        "status": body.get("status", {}),
        "revision": template["metadata"].get("annotations", {}).get(names.REVISION_ANNOTATION, ""),
        "mounts": frozenset(volume["configMap"]["name"] for volume in volumes if "configMap" in volume),
        "volumes": frozenset(volume["name"] for volume in volumes),
    }


def _pod(body: Object) -> dict[str, Any]:
    status = body.get("status", {})
    kept = ("phase", "podIP", "conditions", "reason", "message")
    first = [each for each in status.get("initContainerStatuses", ()) if not _has_succeeded(each)]
    containers = [*first, *status.get("containerStatuses", ())]
    annotations = body["metadata"].get("annotations", {})
    return {
        **{key: status[key] for key in kept if key in status},
        **({"containerStatuses": containers} if containers else {}),
        "revision": annotations.get(names.REVISION_ANNOTATION, ""),
    }


def _has_succeeded(container: Mapping[str, Any]) -> bool:
    return bool(container.get("state", {}).get("terminated", {}).get("exitCode") == 0)


def _config_map(body: Object) -> dict[str, Any]:
    return {"keys": tuple(sorted(body.get("data", {})))}


def _data(body: Object) -> dict[str, Any]:
    return {"data": body.get("data", {})}


def _service(body: Object) -> dict[str, Any]:
    spec = body.get("spec", {})
    # HTTP uses TCP, and the same number may also be a UDP port.
    tcp = [port for port in spec.get("ports", ()) if port.get("protocol", "TCP") == "TCP"]
    ports = {port["port"]: port.get("targetPort", port["port"]) for port in tcp}
    return {"selector": spec.get("selector", {}), "ports": ports, "headless": spec.get("clusterIP") == "None"}


def _claim(body: Object) -> dict[str, Any]:
    return {"phase": body.get("status", {}).get("phase", "")}


def _key_names(body: Object) -> dict[str, Any]:
    """Return the names of the data keys, as far as `managedFields` shows them; None if it does not."""
    managers = [manager.get("fieldsV1", {}) for manager in body["metadata"].get("managedFields", ())]
    if not any(managers):
        return {"keys": None}
    # A server-side apply of stringData is recorded under that name only, although the server stores it as data.
    parts = ("f:data", "f:binaryData", "f:stringData")
    fields = {key for manager in managers for part in parts for key in manager.get(part, {})}
    return {"keys": frozenset(key.removeprefix("f:") for key in fields if key.startswith("f:"))}


_PROJECTIONS: Mapping[str, Callable[[Object], dict[str, Any]]] = {
    **{kind: partial(_custom, kind) for kind in _OWN_KINDS},
    "Deployment": _deployment,
    "Pod": _pod,
    "ConfigMap": _config_map,
    "Secret": _data,
    names.CARD_KEYS: _data,
    names.KEY_SET: _data,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "SecretMetadata": _key_names,
    "ConfigMapMetadata": _key_names,
}
