"""The scheme of a controller: the kinds that it knows, and the labels and annotations of its objects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_kube.port import Object, Resource

MANAGED_BY: Final = "app.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    field_manager: str
    """The field manager of server-side apply, and the value of the label `app.kubernetes.io/managed-by`."""
    group: str
    """The prefix of the controller's labels and annotations. The cache keeps annotations with this prefix only."""
    hash_annotation: str
    """The annotation with the hash of the last applied manifest."""
    resources: Mapping[str, Resource]
    """The resources by their kind in the cache."""
    projections: Mapping[str, Callable[[Object], Mapping[str, Any]]]
    """For each kind, a function that returns the part of an object that the cache keeps in addition to its metadata."""

    def is_ours(self, labels: Mapping[str, str]) -> bool:
        """Return whether the labels name this controller as the manager."""
        return labels.get(MANAGED_BY) == self.field_manager
