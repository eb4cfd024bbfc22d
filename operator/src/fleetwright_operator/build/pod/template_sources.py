"""The Secrets and ConfigMaps that a `podTemplate` uses. Pure.

A process reads its environment once, so a new version of the environment creates a new pod; files of volumes are
refreshed in the running pod. This module accepts a patch of any shape, because `pod_template` validates it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_operator.build.pod.file_mounts import CONFIG_MAP, SECRET

Place = tuple[str, str]
"""(kind, name)"""
_ENVIRONMENT = {
    "configMapKeyRef": (CONFIG_MAP, "name"),
    "configMapRef": (CONFIG_MAP, "name"),
    "secretKeyRef": (SECRET, "name"),
    "secretRef": (SECRET, "name"),
}
_VOLUMES = {"configMap": (CONFIG_MAP, "name"), "secret": (SECRET, "secretName")}
_PROJECTED = {"configMap": (CONFIG_MAP, "name"), "secret": (SECRET, "name")}


def environment_places(patch: Mapping[str, Any] | None) -> list[Place]:
    """Return the objects in the environment of all containers that the patch changes or adds."""
    found: set[Place] = set()
    for kind in ("containers", "initContainers"):
        for container in _each(_pod(patch), kind):
            for source in _each(container, "envFrom"):
                found.update(_named(source, _ENVIRONMENT))
            for variable in _each(container, "env"):
                found.update(_named(variable.get("valueFrom"), _ENVIRONMENT))
    return sorted(found)


def volume_places(patch: Mapping[str, Any] | None) -> list[Place]:
    found: set[Place] = set()
    for volume in _each(_pod(patch), "volumes"):
        found.update(_named(volume, _VOLUMES))
        for source in _each(volume.get("projected"), "sources"):
            found.update(_named(source, _PROJECTED))
    return sorted(found)


def _pod(patch: Mapping[str, Any] | None) -> Any:
    return patch.get("spec") if patch else None


def _each(holder: Any, key: str) -> Iterator[Mapping[str, Any]]:
    items = holder.get(key) if isinstance(holder, Mapping) else None
    return (item for item in (items if isinstance(items, list) else ()) if isinstance(item, Mapping))


def _named(holder: Any, references: Mapping[str, tuple[str, str]]) -> Iterator[Place]:
    for key, (kind, field) in references.items():
        reference = holder.get(key) if isinstance(holder, Mapping) else None
        name = reference.get(field) if isinstance(reference, Mapping) else None
        if isinstance(name, str):
            yield kind, name
