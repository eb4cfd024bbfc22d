"""Merges a patch into a manifest as Kubernetes' strategic merge patch does. Pure."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

MERGED_BY = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
}


def is_list_by(entries: Any, key: str) -> bool:
    """Return whether `key` identifies each entry of the list."""
    if not isinstance(entries, list | tuple):
        return False
    found = [entry.get(key) if isinstance(entry, Mapping) else None for entry in entries]
    return all(isinstance(name, str) and name for name in found) and len(set(found)) == len(found)


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """Apply a strategic merge patch: merge objects by field and known lists by key, and replace all other values."""
    if isinstance(base, Mapping) and isinstance(patch, Mapping):
        whole = {key: copy.deepcopy(value) for key, value in base.items()}
        for key, value in patch.items():
            whole[key] = merged(whole.get(key), value, key)
        return {key: value for key, value in whole.items() if value is not None}
    if field in MERGED_BY and isinstance(patch, list | tuple):
        return _by_key(list(base or ()), patch, MERGED_BY[field])
    return copy.deepcopy(patch)


def _by_key(base: list[Any], patch: Sequence[Any], key: str) -> list[Any]:
    over = {entry[key]: entry for entry in patch}
    known = [entry[key] for entry in base]
    patched = [merged(entry, over[entry[key]]) if entry[key] in over else copy.deepcopy(entry) for entry in base]
    return patched + [copy.deepcopy(dict(entry)) for entry in patch if entry[key] not in known]
