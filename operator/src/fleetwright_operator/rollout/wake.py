"""Starts the pods of a sleeping agent whose reconcile is blocked, with the templates that its Deployments already have.

An unblocked reconcile writes whole Deployments instead, which also start the pods.
"""

from collections.abc import Iterable

from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import ForbiddenError, InvalidRequestError


async def start_pods(cluster: Cluster, deployments: Iterable[CachedObject]) -> Violation | None:
    """Set the replicas of each Deployment that has none to 1. Return the refusal of the first refused write.

    The patch takes the ownership of the field. The next unblocked reconcile therefore applies the whole manifest again.

    Raises:
        ConflictError: A Deployment differs from the cached version.
    """
    for deployment in deployments:
        if deployment.projection["replicas"] != 0:
            continue
        named = f"{deployment.kind} {deployment.name!r}"
        try:
            await cluster.patch(deployment, {"spec": {"replicas": 1}})
        except InvalidRequestError as refused:
            return Violation("Rejected", f"{named} was rejected by the API server: {refused.message}")
        except ForbiddenError as refused:
            return Violation("Forbidden", f"{named} was forbidden by the API server: {refused.message}")
    return None
