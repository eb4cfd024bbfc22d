"""Reads the agents that may ask for approvals, their serving pods, and decisions that are not delivered."""

from collections.abc import Iterator

from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.kinds.resources import REPLICA_SETS
from fleetwright_operator.kinds.views import approval_of
from fleetwright_operator.observe.installation import is_managed_elsewhere
from fleetwright_operator.settings import Settings


def asking_agents(cache: Cache, settings: Settings) -> Iterator[tuple[CachedObject, CachedObject]]:
    """Yield each agent of this installation that may ask for approvals, with its serving pod.

    Agents without one are left out.
    """
    for agent in cache.find("asks"):
        is_ours = not agent.deleting and not is_managed_elsewhere(agent, settings)
        pod = serving_pod(cache, agent) if is_ours else None
        if pod is not None:
            yield agent, pod


def serving_pod(cache: Cache, agent: CachedObject) -> CachedObject | None:
    """Return the ready pod of the agent's own Deployment.

    The operator sends its token to this pod. Labels and owner references are writable by users of the namespace.
    Therefore the whole chain of controllers must exist, with matching uids: pod, ReplicaSet, Deployment, Agent. The
    Deployment replaces its pod only after the old one has ended. So if two pods seem to be the agent, none is used.
    """
    deployment = cache.get("Deployment", agent.namespace, agent.name)
    if deployment is None or deployment.controller is None or deployment.controller.uid != agent.uid:
        return None
    found = cache.find("pod-of", agent.namespace, agent.name)
    pods = [pod for pod in found if _serves(pod) and _is_below(cache, pod, deployment)]
    return pods[0] if len(pods) == 1 else None


def has_undelivered_decision(cache: Cache, agent: CachedObject) -> bool:
    found = cache.find("approval-of", agent.namespace, agent.name)
    return any(is_of(entry, agent) and approval_of(entry).is_undelivered for entry in found)


def is_of(approval: CachedObject, agent: CachedObject) -> bool:
    """Return whether the agent owns the Approval. An Approval of a deleted agent with the same name does not count."""
    return approval.controller is not None and approval.controller.uid == agent.uid and not approval.deleting


def _serves(pod: CachedObject) -> bool:
    conditions = pod.projection.get("conditions", ())
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    return ready and not pod.deleting and bool(pod.projection.get("podIP"))


def _is_below(cache: Cache, pod: CachedObject, deployment: CachedObject) -> bool:
    """Return whether a ReplicaSet of the Deployment controls the pod."""
    owner = pod.controller
    if owner is None or owner.kind != "ReplicaSet":
        return False
    above = cache.get(REPLICA_SETS.kind, pod.namespace, owner.name)
    if above is None or above.uid != owner.uid or above.controller is None:
        return False
    return (above.controller.kind, above.controller.uid) == ("Deployment", deployment.uid)
