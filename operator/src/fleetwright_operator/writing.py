"""Writes the children of one object and takes away those it no longer has. Says what stopped it, as a violation."""

from collections.abc import Sequence

from fleetwright_operator import names
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.cluster.port import RESOURCES
from fleetwright_operator.desired.manifest import Manifest
from fleetwright_operator.errors import Forbidden, Missing, Rejected, Stalled, Waiting
from fleetwright_operator.violation import Violation

_PRUNED = {"CiliumNetworkPolicy", "Deployment", "NetworkPolicy", "Secret", "Service", "ServiceAccount"}
"""Not ConfigMaps, which have a history, nor volumes, which hold memory, nor pods, which are a Deployment's."""
HISTORY = 3
_REFUSALS = {"Rejected", "Forbidden"}


async def write_children(cluster: Cluster, manifests: Sequence[Manifest]) -> Violation | None:
    """Stops at the first child that cannot be: what comes later may build on it.

    Raises:
        Waiting: A Secret went meanwhile. Who took it away wants another token in it, and not this one again.
    """
    secrets = [manifest for manifest in manifests if manifest["kind"] == "Secret" and _is_seen(cluster, manifest)]
    for manifest in manifests:
        child = f"{manifest['kind']} {manifest['metadata']['name']!r}"
        if manifest in secrets and not _is_seen(cluster, manifest):
            raise Waiting(0.1, f"{child} went meanwhile: decided anew")
        try:
            await cluster.ensure(manifest)
        except Stalled as stalled:
            return Violation(stalled.reason, stalled.message)
        except Rejected as refused:
            return Violation("Rejected", f"{child} is refused by the API server: {refused.message}")
        except Forbidden as refused:
            return Violation("Forbidden", f"{child} may not be written: {refused.message}")
        except Missing:
            remedy = RESOURCES[manifest["kind"]].if_unserved
            if not remedy:
                raise
            return Violation("NotServed", f"{child} needs {manifest['apiVersion']}, which is not served: {remedy}")
    return None


def is_refusal(stopped: Violation | None) -> bool:
    """Whether the API server stopped the writing, by a rule or for want of a right, which no event takes away."""
    return stopped is not None and stopped.reason in _REFUSALS


def unseen_secrets_first(cluster: Cluster, manifests: Sequence[Manifest]) -> list[Manifest]:
    """In their order, but for Secrets that were not seen: who looked too early learns of them before writing others.

    A token that exists must never be missing from a list that was made without knowing of it.
    """

    return sorted(manifests, key=lambda manifest: manifest["kind"] != "Secret" or _is_seen(cluster, manifest))


def _is_seen(cluster: Cluster, manifest: Manifest) -> bool:
    metadata = manifest["metadata"]
    return cluster.cache.get(manifest["kind"], metadata["namespace"], metadata["name"]) is not None


async def prune(cluster: Cluster, owner: Entry, manifests: Sequence[Manifest]) -> None:
    """Deletes what the owner controls and no longer wants."""
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    for child in cluster.cache.find("child-of", *owner.id):
        controlled = child.controller is not None and child.controller.uid == owner.uid
        if controlled and child.kind in _PRUNED and (child.kind, child.name) not in wanted and not child.deleting:
            await cluster.delete(child)


async def prune_released(cluster: Cluster, holder: Entry) -> None:
    """Deletes what the holder kept from a Skill that is no more, once no Deployment mounts it."""
    cache = cluster.cache
    for held in cache.find("held-by", *holder.id):
        if held.kind != "ConfigMap" or names.SKILL_LABEL not in held.labels:
            continue
        skill = cache.get(names.SKILL, held.namespace, held.labels[names.SKILL_LABEL])
        orphaned = skill is None or held.controller is None or held.controller.uid != skill.uid
        if orphaned and not held.deleting and not cache.find("mounted", held.namespace, held.name):
            await cluster.delete(held)


async def prune_history(cluster: Cluster, owner: Entry, *, current: str) -> None:
    """Keeps the current ConfigMap, the last of those before it, and every one that a Deployment still mounts."""
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
