"""Decides from the objects of a namespace whether the operator still has something to do there. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from e2e.control_plane.client import Object
from e2e.faults.runtimes import asks_of, digest_of

from fleetwright_api import names

_OWN = {names.AGENT, names.SKILL, names.MCP_SERVER}


def settled(objects: Iterable[Object]) -> str:
    """Return the reason why the objects of a namespace are not settled, or "" if they are."""
    bodies = list(objects)
    alive = {body["metadata"]["uid"] for body in bodies}
    agents = {body["metadata"]["name"] for body in bodies if body["kind"] == names.AGENT}
    for body in bodies:
        metadata, what = body["metadata"], f"{body['kind']} {body['metadata']['name']}"
        if "deletionTimestamp" in metadata:
            return f"{what} is being deleted"
        for owner in metadata.get("ownerReferences", ()):
            if owner["kind"] in _OWN and owner["uid"] not in alive:
                return f"{what} is an orphan"
        # A ReplicaSet owns the pod, and ReplicaSets are not watched.
        if body["kind"] == "Pod" and metadata.get("labels", {}).get(names.AGENT_LABEL) not in {None, *agents}:
            return f"{what} is an orphan"
        if body["kind"] in _OWN and not _is_ready(body):
            return f"{what} is not ready"
        if body["kind"] == "Deployment" and not _shows_its_pods(body):
            return f"the status of {what} does not show its pods yet"
        if body["kind"] == "Secret" and names.NEXT_KEY in body.get("data", {}):
            return f"{what} holds a token that is not in use yet"
    return _unsettled_runtime(bodies)


def _is_ready(body: Object) -> bool:
    """Return True if the object is Ready, or suspended as its spec requires."""
    conditions = body.get("status", {}).get("conditions", ())
    wanted = {"reason": "Suspended"} if body["spec"].get("suspend") else {"status": "True"}
    return any(
        condition["type"] == "Ready"
        and wanted.items() <= condition.items()
        and condition["observedGeneration"] == body["metadata"]["generation"]
        for condition in conditions
    )


def _shows_its_pods(deployment: Object) -> bool:
    """Return True once the deployment controller has written the number of pods. On a busy machine it may be late."""
    status = deployment.get("status", {})
    is_observed: bool = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return is_observed and status.get("replicas", 0) == deployment["spec"].get("replicas", 1)


def _unsettled_runtime(bodies: Sequence[Object]) -> str:
    """Return what is missing between agents with a runtime and their Approvals and pods, or ""."""
    approvals = {body["metadata"]["name"]: body for body in bodies if body["kind"] == names.APPROVAL}
    with_pods = {body["metadata"].get("labels", {}).get(names.AGENT_LABEL) for body in bodies if body["kind"] == "Pod"}
    asks: dict[str, Object] = {}
    for agent in (body for body in bodies if body["kind"] == names.AGENT):
        name, own = agent["metadata"]["name"], asks_of(agent)
        if own is None:
            continue
        if "sleep" in agent["spec"] and not agent["spec"].get("suspend"):
            if not _is_asleep(agent):
                return f"Agent {name} does not sleep after its last wake"
            # The status shows the sleep before the pod ends.
            if name in with_pods:
                return f"Agent {name} sleeps and still has a pod"
        asks |= {names.approval(name, ask): more for ask, more in own.items()}
    return next(_unsettled_approvals(approvals, asks), "")


def _is_asleep(agent: Object) -> bool:
    wake = agent["metadata"].get("annotations", {}).get(names.WAKE_ANNOTATION, "")
    sleep = agent.get("status", {}).get("sleep")
    return sleep is not None and sleep.get("request", "") == wake


def _unsettled_approvals(approvals: dict[str, Object], asks: dict[str, Object]) -> Iterator[str]:
    for name, ask in asks.items():
        digest = digest_of(ask["arguments"])
        if name not in approvals or approvals[name]["spec"]["request"]["argumentsDigest"] != digest:
            yield f"Approval {name} does not show the question"
    for name, body in approvals.items():
        status = body.get("status", {})
        if "phase" not in status:
            yield f"Approval {name} has no status"
        must_close = name not in asks or "expires" in asks[name] or "decision" in body["spec"]
        if must_close and "closed" not in status:
            yield f"Approval {name} is not closed"
