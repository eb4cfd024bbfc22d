"""Makes the parent of an agent the agent's owner, if the parent sets `spec.fleet.cascade`."""

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.port import Object
from fleetwright_operator.observe.hierarchy import ObservedHierarchy


async def follow_parent(cluster: Cluster, entry: CachedObject, team: ObservedHierarchy) -> None:
    """Write or remove the owner reference to the parent, if it differs.

    Raises:
        ApiError: The write failed.
    """
    # A missing parent may have been deleted just now. The garbage collector still needs the reference.
    if not team.missing_parent and not _is_current(entry, team.cascade_parent):
        await cluster.apply_metadata(entry, owner_metadata(team.cascade_parent))


def owner_metadata(parent: AgentView | None) -> Object:
    """Return the metadata that the operator applies to the agent. Without a parent, earlier metadata is removed."""
    if parent is None:
        return {}
    reference = {"apiVersion": names.API_VERSION, "kind": names.AGENT, "name": parent.name, "uid": parent.uid}
    return {"annotations": {names.CASCADE_ANNOTATION: parent.uid}, "ownerReferences": [reference]}


def _is_current(entry: CachedObject, parent: AgentView | None) -> bool:
    marked = entry.annotations.get(names.CASCADE_ANNOTATION, "")
    if parent is None:
        return not marked
    return marked == parent.uid and any(owner.uid == parent.uid for owner in entry.holders)
