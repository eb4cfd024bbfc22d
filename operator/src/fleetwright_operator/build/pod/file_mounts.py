"""Mounts keys of users' Secrets and ConfigMaps as files below the configuration folder. Only named keys are mounted."""

from collections.abc import Iterable
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash

ROOT = "/etc/fleetwright"
SECRET = "Secret"  # noqa: S105 - the name of a kind
CONFIG_MAP = "ConfigMap"
_READ_BY_GROUP = 0o440
File = tuple[str, str, str]
"""(kind, name, key)"""


def file_mounts(files: Iterable[File]) -> list[dict[str, Any]]:
    """Return the mounts. The keys of one object share a folder."""
    return [
        {"name": _volume(*place), "mountPath": f"{ROOT}/{names.mounted_folder(*place)}", "readOnly": True}
        for place in _by_object(files)
    ]


def file_volumes(files: Iterable[File]) -> list[dict[str, Any]]:
    return [
        (secret_volume if kind == SECRET else config_map_volume)(
            _volume(kind, name), name, [{"key": key, "path": key} for key in keys]
        )
        for (kind, name), keys in _by_object(files).items()
    ]


def config_map_volume(volume: str, name: str, items: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a volume. Without `items` every key becomes a file, including keys that are added later."""
    source: dict[str, Any] = {"name": name, "defaultMode": _READ_BY_GROUP}
    return {"name": volume, "configMap": {**source, "items": items} if items else source}


def secret_volume(volume: str, name: str, items: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    secret: dict[str, Any] = {"secretName": name, "defaultMode": _READ_BY_GROUP}
    return {"name": volume, "secret": {**secret, "items": items} if items else secret}


def _by_object(files: Iterable[File]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for kind, name, key in sorted(set(files)):
        found.setdefault((kind, name), []).append(key)
    return found


def _volume(kind: str, name: str) -> str:
    # Names of Secrets may be longer than those of volumes, and may contain dots.
    return f"{kind.lower()}-{short_hash(name)}"
