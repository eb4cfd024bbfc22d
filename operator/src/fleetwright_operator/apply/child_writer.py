"""Writes the children of one object, and deletes those that it no longer wants.

A conflict or a rejected write stops the writing. The error is returned as a violation.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fleetwright_api import names
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import (
    BlockedChildError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    RetryLaterError,
)
from fleetwright_operator.build.manifest import Manifest
from fleetwright_operator.kinds.resources import PRUNED, RESOURCES
from fleetwright_operator.status.conditions import CONFLICT

HISTORY = 3
_REFUSALS = {"Rejected", "Forbidden"}
_RUNS_PODS = {"Deployment", "Pod"}
"""Kinds that are written last: a pod mounts the other children and runs under their policies."""


@dataclass(slots=True)
class _WriteGroup:
    """A lane: children that are written in order. Different lanes are written concurrently."""

    manifests: list[Manifest] = field(default_factory=list)
    stopped: Violation | None = None


async def write_children(
    cluster: Cluster, manifests: Sequence[Manifest], *, following: Sequence[Manifest] = ()
) -> Violation | None:
    """Write the children that differ from their manifests. Return the violation that stopped the writing, if any.

    Children that do not depend on each other are written concurrently. A Deployment or a pod is written only when
    everything that it mounts and every policy is in place.

    Args:
        following: Manifests that the caller writes later. After a conflict their names are checked too, so that one
            condition reports every conflict.

    Raises:
        RetryLaterError: A Secret was deleted meanwhile. The next reconcile decides whether it needs another token.
    """
    seen = {_place(manifest) for manifest in manifests if manifest["kind"] == "Secret" and _is_seen(cluster, manifest)}
    outdated = [wanted for manifest in manifests if (wanted := cluster.outdated(manifest)) is not None]
    owner = _owner(manifests)
    lane = _one_lane if owner in cluster.failing else _lane
    lanes = _lanes([wanted for wanted in outdated if not _is_last(cluster, wanted)], lane)
    last = _lanes([wanted for wanted in outdated if _is_last(cluster, wanted)], lane)
    cluster.failing.add(owner)
    stopped = await _write_concurrently(cluster, lanes, seen) or await _write_concurrently(cluster, last, seen)
    if not stopped:
        cluster.failing.discard(owner)
        return None
    conflicts = [violation.message for violation in stopped if violation.reason == CONFLICT]
    if not conflicts:
        return stopped[0]
    unwritten = [*(wanted for lane in [*lanes, *last] for wanted in lane.manifests), *following]
    conflicts += [foreign.message for wanted in unwritten if (foreign := await cluster.conflict(wanted))]
    return Violation(CONFLICT, "; ".join(conflicts))


def _is_last(cluster: Cluster, wanted: Manifest) -> bool:
    """Return whether the child is written after the others.

    A pod mounts no Service, and creating a Service takes the API server longer than anything else. So the Service is
    written concurrently with the Deployment, unless the cache has a Service of that name which is not managed by
    Fleetwright.
    """
    metadata = wanted["metadata"]
    if wanted["kind"] != "Service":
        return wanted["kind"] in _RUNS_PODS
    known = cluster.cache.get("Service", metadata["namespace"], metadata["name"])
    return known is None or known.is_ours


def _owner(manifests: Sequence[Manifest]) -> str:
    """Return the uid of the object that owns these children, or an empty string if no child names an owner."""
    owners = (owner["uid"] for wanted in manifests for owner in wanted["metadata"].get("ownerReferences", ()))
    return next(owners, "")


def _lanes(outdated: Sequence[Manifest], lane: Callable[[Manifest], str]) -> list[_WriteGroup]:
    lanes: dict[str, _WriteGroup] = {}
    for wanted in outdated:
        lanes.setdefault(lane(wanted), _WriteGroup()).manifests.append(wanted)
    return list(lanes.values())


def _one_lane(_: Manifest) -> str:
    """Put all children into one lane after a failure, so that a reconcile that fails again costs only one request."""
    return "all"


def _lane(wanted: Manifest) -> str:
    """Return the name of the child's lane. Children whose order matters share a lane."""
    if wanted["kind"] == "Secret":
        return "secrets"
    # The Cilium policy must allow a name before the plain policy stops doing so.
    if wanted["kind"] == "CiliumNetworkPolicy" or "Egress" in wanted.get("spec", {}).get("policyTypes", ()):
        return "egress"
    return _named(wanted)


async def _write_concurrently(
    cluster: Cluster, lanes: Sequence[_WriteGroup], seen: set[tuple[str, str]]
) -> list[Violation]:
    """Write the lanes concurrently. All writes finish before an error is raised, so that no response is lost."""
    if len(lanes) == 1:
        await _write_lane(cluster, lanes[0], seen)
    else:
        ended = await asyncio.gather(*(_write_lane(cluster, lane, seen) for lane in lanes), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error
    return [lane.stopped for lane in lanes if lane.stopped]


async def _write_lane(cluster: Cluster, lane: _WriteGroup, seen: set[tuple[str, str]]) -> None:
    """Write until a child fails. The children after it stay in the lane, because they may depend on it."""
    while lane.manifests and lane.stopped is None:
        wanted = lane.manifests.pop(0)
        if _place(wanted) in seen and not _is_seen(cluster, wanted):
            raise RetryLaterError(0.1, f"{_named(wanted)} was deleted during this reconcile; the next one decides")
        lane.stopped = await _write(cluster, wanted)


async def _write(cluster: Cluster, wanted: Manifest) -> Violation | None:
    try:
        await cluster.apply(wanted)
    except BlockedChildError as stalled:
        return Violation(stalled.reason, stalled.message)
    except InvalidRequestError as refused:
        return Violation("Rejected", f"{_named(wanted)} was rejected by the API server: {refused.message}")
    except ForbiddenError as refused:
        return Violation("Forbidden", f"{_named(wanted)} was forbidden by the API server: {refused.message}")
    except NotFoundError:
        remedy = RESOURCES[wanted["kind"]].if_unserved
        if not remedy:
            raise
        return Violation("NotServed", f"{_named(wanted)} needs {wanted['apiVersion']}, which is not served: {remedy}")
    return None


def _named(manifest: Manifest) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']!r}"


def _place(manifest: Manifest) -> tuple[str, str]:
    return (manifest["kind"], manifest["metadata"]["name"])


def is_refusal(stopped: Violation | None) -> bool:
    """Return whether the API server rejected a write because of a rule or a missing permission.

    No event reports that the rule or the permission has changed.
    """
    return stopped is not None and stopped.reason in _REFUSALS


def unseen_secrets_first(cluster: Cluster, manifests: Sequence[Manifest]) -> list[Manifest]:
    """Sort Secrets that are not in the cache before all other manifests, and keep the order otherwise.

    If the cache is stale, writing such a Secret discovers the existing one. This must happen before the operator writes
    a token list without the existing token.
    """

    return sorted(manifests, key=lambda manifest: manifest["kind"] != "Secret" or _is_seen(cluster, manifest))


def _is_seen(cluster: Cluster, manifest: Manifest) -> bool:
    metadata = manifest["metadata"]
    return cluster.cache.get(manifest["kind"], metadata["namespace"], metadata["name"]) is not None


async def prune(cluster: Cluster, owner: CachedObject, manifests: Sequence[Manifest]) -> None:
    """Delete the children that the owner controls and no longer wants."""
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    for child in cluster.cache.find("child-of", *owner.id):
        controlled = child.controller is not None and child.controller.uid == owner.uid
        if controlled and _is_prunable(owner, child) and (child.kind, child.name) not in wanted and not child.deleting:
            await cluster.delete(child)


def _is_prunable(owner: CachedObject, child: CachedObject) -> bool:
    """Return whether a child may be deleted. Other ConfigMaps are part of the history, or are always wanted."""
    listed = child.kind == "ConfigMap" and child.name == names.agent_gateway_clients(owner.name)
    return listed or child.kind in PRUNED


async def prune_released(cluster: Cluster, holder: CachedObject) -> None:
    """Delete the snapshots of a deleted Skill that this agent kept alive, once no Deployment mounts them."""
    cache = cluster.cache
    for held in cache.find("held-by", *holder.id):
        if held.kind != "ConfigMap" or names.SKILL_LABEL not in held.labels:
            continue
        skill = cache.get(names.SKILL, held.namespace, held.labels[names.SKILL_LABEL])
        orphaned = skill is None or held.controller is None or held.controller.uid != skill.uid
        if orphaned and not held.deleting and not cache.find("mounted", held.namespace, held.name):
            await cluster.delete(held)


async def prune_history(cluster: Cluster, owner: CachedObject, *, current: str) -> None:
    """Delete old ConfigMaps, except the current one, the last few before it, and all that a Deployment still mounts."""
    cache = cluster.cache
    history = [
        child
        for child in cache.find("child-of", *owner.id)
        if child.kind == "ConfigMap" and child.controller is not None and child.controller.uid == owner.uid
        if not names.HISTORICAL.isdisjoint(child.annotations)
    ]
    old = sorted(
        (child for child in history if child.name != current and not child.deleting),
        key=lambda child: (child.created, int(child.resource_version)),
        reverse=True,
    )
    for child in old[HISTORY - 1 :]:
        if not cache.find("mounted", owner.namespace, child.name):
            await cluster.delete(child)
