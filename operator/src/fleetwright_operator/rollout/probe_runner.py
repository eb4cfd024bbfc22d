"""Runs a probe pod and deletes it afterwards. Level-triggered: any reconcile continues where another one stopped.

    answer = await probes.run_probe(probe)     creates the pod if there is none, and if few probes run
    …the caller stores the answer in the owner's status, so that the probe is not repeated…
    await probes.finish_probes(entry)          deletes the pods, and then their policies

The owner's reconciler decides from the owner's status whether a probe is needed at all.
"""

from dataclasses import dataclass

from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import InvalidRequestError, NotFoundError
from fleetwright_operator.apply.child_writer import write_children
from fleetwright_operator.build.probe import CONTAINER, Probe, probe_manifests
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.rollout.probe_result import (
    REPORT_LIMIT,
    ProbeFailure,
    ProbePending,
    ProbeResult,
    parse_report,
    unreported,
)
from fleetwright_operator.rollout.slot_limiter import WAITING_SECONDS, SlotLimiter
from fleetwright_operator.status.workload_health import WorkloadHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRunner:
    cluster: Cluster
    limiter: SlotLimiter

    async def run_probe(self, probe: Probe) -> ProbeResult:
        """Return the result so far. While it is `ProbePending`, events of the pod trigger the owner's next reconcile.

        A probe without a pod waits while many others run.
        """
        owner = (probe.owner.kind, probe.owner.namespace, probe.owner.name)
        try:
            if self.cluster.cache.get("Pod", probe.owner.namespace, probe.name) is None and (
                others := self.limiter.take_slot(owner)
            ):
                return ProbePending(WorkloadHealth(None, "Pending", f"it waits for {others} other probes to end"))
            stopped = await write_children(self.cluster, probe_manifests(probe))
        finally:
            self.limiter.release_reservation(owner)
        if stopped is not None:
            return ProbeFailure(stopped.reason, stopped.message)
        return await result_of(self.cluster, probe.owner.namespace, probe.name)

    async def finish_probes(self, owner: CachedObject, *, keep: str = "") -> None:
        """Delete the owner's probes except the one named `keep`. The next waiting probe may then run."""
        await delete_probes(self.cluster, owner, keep=keep)
        if not keep:
            self.limiter.leave_queue(owner.id)
        self.limiter.release_reservation(owner.id)

    def requeue_after(self, owner: CachedObject) -> float | None:
        """Return seconds until an owner whose probe waits must be queued again; None if an event will trigger that."""
        return WAITING_SECONDS if self.limiter.is_waiting(owner.id) else None

    def forget(self, owner: Key) -> None:
        """Forget a deleted owner."""
        self.limiter.leave_queue(owner)
        self.limiter.release_reservation(owner)


async def result_of(cluster: Cluster, namespace: str, name: str, *, container: str = CONTAINER) -> ProbeResult:
    """Return the result of the pod with this name.

    `container` runs once and reports in the last line of its log. Other containers of the pod do not count.
    """
    pod = cluster.cache.get("Pod", namespace, name)
    known = unreported(pod, container=container)
    if known is not None or pod is None:
        return known or ProbePending()
    try:
        return parse_report(await cluster.read_log(pod, container=container, limit=REPORT_LIMIT))
    except NotFoundError:
        return ProbePending()  # the pod was deleted before its log was read
    except InvalidRequestError as refused:
        return ProbeFailure("NoReport", f"the pod's log cannot be read: {refused.message}")


async def delete_probes(cluster: Cluster, owner: CachedObject, *, keep: str = "") -> None:
    """Delete the owner's probes except the one named `keep`. A policy is deleted after its pod is gone."""
    for child in cluster.cache.find("probe-of", *owner.id):
        controlled = child.controller is not None and child.controller.uid == owner.uid
        if not controlled or child.deleting or child.name == keep:
            continue
        if child.kind == "Pod":
            await cluster.delete_pod(child)
        elif cluster.cache.get("Pod", child.namespace, child.name) is None:
            await cluster.delete(child)
