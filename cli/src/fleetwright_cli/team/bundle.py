"""A team as manifests that `kubectl apply` accepts: agents, skills, MCP servers and ConfigMaps. Pure.

A bundle has no namespace, no status and nothing that a cluster assigned. It has no Secret and no memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from fleetwright_api import names

_ORDER: Final = ("ConfigMap", names.SKILL, names.MCP_SERVER, names.AGENT)
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def portable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with only what a user writes: name, labels, annotations, and spec or data."""
    metadata = body["metadata"]
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != _LAST_APPLIED and not key.startswith(f"{names.GROUP}/")
    }
    kept = {"name": metadata["name"], "labels": metadata.get("labels"), "annotations": annotations}
    content = {key: body[key] for key in ("spec", "data", "binaryData", "immutable") if body.get(key) is not None}
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "metadata": {key: value for key, value in kept.items() if value},
        **content,
    }


def fields_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of an Agent as its user wrote it, to copy it or to compare it. Decisions use the views."""
    fields: dict[str, Any] = body["spec"]
    return fields


def without_parent(lead: Mapping[str, Any]) -> dict[str, Any]:
    """Return the lead's manifest without its own parent, which is not part of the bundle."""
    return _without(lead, "spec", "fleet", "parent")


def _without(document: Mapping[str, Any], first: str, *rest: str) -> dict[str, Any]:
    """Return a document without the field at a path."""
    if not rest:
        return {key: value for key, value in document.items() if key != first}
    return {key: _without(value, *rest) if key == first else value for key, value in document.items()}


def config_maps_of(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the ConfigMaps that these manifests refer to, sorted."""
    return sorted({name for manifest in manifests for name in _referenced(manifest, "configmap")})


def secrets_of(manifests: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the names of the Secrets that these manifests refer to, sorted."""
    return sorted({name for manifest in manifests for name in _referenced(manifest, "secret")})


def document(manifests: Sequence[Mapping[str, Any]], comment: Sequence[str] = ()) -> str:
    """Return one YAML text with what is referred to first. Args: `comment` are lines for the head of the text."""
    ordered = sorted(manifests, key=lambda manifest: _ORDER.index(manifest["kind"]))  # Stable: parents stay first.
    header = "".join(f"# {line}\n" for line in comment)
    return header + yaml.safe_dump_all(ordered, sort_keys=False, allow_unicode=True)


def _referenced(value: Any, kind: str) -> Iterator[str]:
    """Yield the names in references of a kind, such as `apiKeySecretRef`, `configMapKeyRef` or `secretName`."""
    if isinstance(value, list):
        for item in value:
            yield from _referenced(item, kind)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        word = key.lower()
        if isinstance(item, dict) and kind in word and isinstance(item.get("name"), str):
            yield item["name"]
        elif kind == "secret" and word == "secretname" and isinstance(item, str):
            yield item
        elif kind == "secret" and word == "imagepullsecrets" and isinstance(item, list):
            yield from (each["name"] for each in item if isinstance(each, dict) and "name" in each)
        else:
            yield from _referenced(item, kind)
