"""Asks a question by a probe and takes its pod away afterwards. Level-triggered: any pass goes on where one stopped.

    answer = await ask(cluster, probe)         starts the pod where there is none
    …the answer goes into the owner's status, so that nobody asks again…
    await clear(cluster, entry)                the pods go, and then their policies

Whether a question must be asked at all, the owner's pass decides from its status.
"""

from fleetwright_operator.apply.child_writer import write_children
from fleetwright_operator.build.probe import Probe, probe_manifests
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.kube.errors import Missing, Rejected
from fleetwright_operator.rollout.probe_result import REPORT_LIMIT, Answer, Failure, Pending, parse_report, unreported


async def ask(cluster: Cluster, probe: Probe) -> Answer:
    """What is known by now. While it is `Pending`, events of the pod bring the owner's next pass."""
    stopped = await write_children(cluster, probe_manifests(probe))
    if stopped is not None:
        return Failure(stopped.reason, stopped.message)
    pod = cluster.cache.get("Pod", probe.owner.namespace, probe.name)
    known = unreported(pod)
    if known is not None or pod is None:
        return known or Pending()
    try:
        return parse_report(await cluster.read_log(pod, limit=REPORT_LIMIT))
    except Missing:
        return Pending()  # the pod went before it was heard
    except Rejected as refused:
        return Failure("NoReport", f"the probe's log cannot be read: {refused.message}")


async def clear(cluster: Cluster, owner: Entry, *, keep: str = "") -> None:
    """Takes away the owner's probes but the one named `keep`; a policy goes when its pod is gone."""
    for child in cluster.cache.find("probe-of", *owner.id):
        controlled = child.controller is not None and child.controller.uid == owner.uid
        if not controlled or child.deleting or child.name == keep:
            continue
        if child.kind == "Pod":
            await cluster.dismiss(child)
        elif cluster.cache.get("Pod", child.namespace, child.name) is None:
            await cluster.delete(child)
