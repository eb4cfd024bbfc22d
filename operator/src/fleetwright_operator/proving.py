"""Tries an agent's next revision by a preflight pod before it may take the place of the one that serves.

Level-triggered, like all probes: any pass goes on where one stopped. A few agents at a time, so that one shared
change does not stop a whole fleet at once.
"""

from fleetwright_operator import preflights
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.desired.agent import AgentChildren
from fleetwright_operator.desired.deployment import is_suspended
from fleetwright_operator.desired.manifest import owner_of
from fleetwright_operator.desired.preflight import preflight
from fleetwright_operator.desired.probe import probe_manifests
from fleetwright_operator.errors import Waiting
from fleetwright_operator.observe import ObservedAgent
from fleetwright_operator.preflights import Pending, Proven, must_be_proven, verdict
from fleetwright_operator.probes import REFUSED
from fleetwright_operator.probing import clear
from fleetwright_operator.violation import Violation
from fleetwright_operator.writing import write_children


async def prove(
    cluster: Cluster, seen: ObservedAgent, children: AgentChildren, *, most_at_once: int, serving: str
) -> Violation | None:
    """Why this revision may not take over yet; None when it may. `serving` says what goes on meanwhile.

    Raises:
        Waiting: Enough revisions are being tried just now.
    """
    deployment = seen.child("Deployment", seen.entry.name)
    if not must_be_proven(deployment, template=children.template_hash, suspended=is_suspended(seen.agent)):
        return None
    owner = owner_of(seen.agent)
    wanted = preflight(owner, children.template, routes=children.routes, referenced=seen.referenced_versions)
    await clear(cluster, seen.entry, keep=wanted.name)
    pod = cluster.cache.get("Pod", seen.entry.namespace, wanted.name)
    if pod is None:
        running = len(cluster.cache.find("running-preflight"))
        if running >= most_at_once:
            raise Waiting(1.0, f"{running} other revisions are being tried")
    stopped = await write_children(cluster, probe_manifests(wanted))
    return stopped or await _judge(cluster, pod, f"revision {children.rendered.revision}", serving)


async def _judge(cluster: Cluster, pod: Entry | None, revision: str, serving: str) -> Violation | None:
    said = verdict(pod)
    if isinstance(said, Proven):
        return None
    if isinstance(said, Pending):
        why = f": {said.why}" if said.why else ""
        return Violation(preflights.TRYING, f"{revision} is being tried{why}{serving}")
    if said.reason != REFUSED and pod is not None:
        await cluster.dismiss(pod)  # the cluster's fault, not the revision's: it is tried again
    return Violation(preflights.FAILED, f"{revision} cannot start: {said.message}{serving}")
