"""The fields of one stored object by field manager, as server-side apply tracks them. Used by the in-memory API."""

import json
from collections.abc import Mapping
from typing import Any

from fleetwright_kube.port import Object

_KEYS = {
    "containers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
}


class StoredObject:
    """A stored object, as the fields that each manager owns."""

    def __init__(self, uid: str, *, created: str) -> None:
        self.uid = uid
        self.created = created
        self.version = "0"
        self.generation = 1
        self.parts: dict[str, Object] = {}
        self._fields: dict[str, Object] = {}
        self.status: Object = {}
        self._spec: str | None = None

    def own(self, manager: str, part: Object, *, patch: Object | None = None) -> None:
        """Args: `patch` is a merge patch that led to `part`. Its nulls remove fields of other managers."""
        for other in list(self.parts):
            if other != manager:
                self._set_part(other, _without(self.parts[other], part if patch is None else patch))
        self._set_part(manager, copy_json(part))

    def _set_part(self, manager: str, part: Object) -> None:
        if self.parts.get(manager) != part:
            self._fields[manager] = _fields(part)
        self.parts[manager] = part

    def renew_generation(self, key: tuple[str, str, str]) -> None:
        spec = json.dumps(self.body(key).get("spec"), sort_keys=True)
        if self._spec is not None and spec != self._spec:
            self.generation += 1
        self._spec = spec

    def body(self, key: tuple[str, str, str]) -> Object:
        whole: Object = {}
        for part in self.parts.values():
            _merge_into(whole, part)
        whole["metadata"] = {
            **whole.get("metadata", {}),
            "namespace": key[1],
            "name": key[2],
            "uid": self.uid,
            "resourceVersion": self.version,
            "generation": self.generation,
            "creationTimestamp": self.created,
            "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsV1": self._fields[manager]} for manager in self.parts
            ],
        }
        return {"kind": key[0], **whole, "status": copy_json(self.status)}

    def essence(self, key: tuple[str, str, str]) -> Object:
        body = self.body(key)
        for field in ("managedFields", "resourceVersion", "generation", "uid"):
            body["metadata"].pop(field)
        return body


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value. `copy.deepcopy` takes five times as long, because it expects any object."""
    if isinstance(value, dict):
        return {key: copy_json(below) for key, below in value.items()}
    if isinstance(value, list):
        return [copy_json(below) for below in value]
    return value


def merged(base: Object, patch: Mapping[str, Any]) -> Object:
    whole: Object = copy_json(base)
    _merge_into(whole, patch)
    return whole


def _merge_into(whole: Object, patch: Mapping[str, Any]) -> None:
    for key, value in patch.items():
        below = whole.get(key)
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(below, dict):
            _merge_into(below, value)
        else:
            whole[key] = copy_json(value)


def without_nulls(value: Object) -> Object:
    """Return a copy without the fields that are null."""
    present = {key: below for key, below in value.items() if below is not None}
    return {key: without_nulls(below) if isinstance(below, dict) else below for key, below in present.items()}


def _without(part: Object, taken: Mapping[str, Any]) -> Object:
    """Return the rest of a manager's fields after another manager has set these fields, or removed them with None."""
    left: Object = {}
    for key, value in part.items():
        if key not in taken:
            left[key] = value
        elif isinstance(value, Mapping) and isinstance(taken[key], Mapping) and taken[key]:
            left[key] = _without(dict(value), taken[key])
    return left


def _fields(value: Any, name: str = "") -> Object:
    if isinstance(value, Mapping):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    if isinstance(value, list):
        keys = _KEYS.get(name) or (_port_keys(value) if name == "ports" else ())
        return {
            "k:" + json.dumps({key: item[key] for key in keys if key in item}): _fields(item) for item in value if keys
        }
    return {}


def _port_keys(ports: list[Any]) -> tuple[str, ...]:
    if ports and "containerPort" in ports[0]:
        return ("containerPort", "protocol")
    return ("port", "protocol")
