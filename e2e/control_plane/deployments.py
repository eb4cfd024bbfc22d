"""The part of a Deployment that only the operator writes."""

from collections.abc import Mapping
from typing import Any

_CONTROLLER = "deployment.kubernetes.io/"


def operator_fields(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a Deployment without the fields that the deployment controller changes."""
    kept = {key: metadata.get(key) for key in ("uid", "generation", "labels", "ownerReferences")}
    annotations = metadata.get("annotations") or {}
    return {**kept, "annotations": {key: text for key, text in annotations.items() if not key.startswith(_CONTROLLER)}}
