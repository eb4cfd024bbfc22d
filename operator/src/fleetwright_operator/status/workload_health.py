"""Derives the health of a Deployment and its pods, with messages that a user can act on. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.condition_reasons import ConditionReason
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.status.conditions import ASLEEP

IMAGE_PULL: Final = "ImagePull"
CRASH: Final = "CrashLoop"
ROLLOUT_PAUSED: Final = "RolloutPaused"
_IMAGE = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
_NAMED_IMAGE = re.compile(r'image "([^"]+)"')
_ENDED = {"Succeeded", "Failed"}
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


@dataclass(frozen=True, slots=True)
class WorkloadHealth:
    status: bool | None
    reason: ConditionReason
    message: str


def deployment_health(
    deployment: CachedObject | None,
    pods: Sequence[CachedObject],
    *,
    revision: str | None,
    claim: CachedObject | None = None,
    suspended: str = "",
    asleep: bool = False,
) -> WorkloadHealth:
    """Return whether the desired revision serves.

    Args:
        revision: None for templates without a revision.
        suspended: Why the workload is suspended; empty if it is not.
        asleep: True if the workload has no pod until a message arrives.
    """
    if deployment is None:
        return WorkloadHealth(None, "NotObserved", "the Deployment was written and is not observed yet")
    if suspended:
        return _suspended(pods, suspended)
    if asleep:
        return WorkloadHealth(True, ASLEEP, "the agent is idle: no pod runs until a message arrives")
    status = deployment.projection["status"]
    current = revision is None or deployment.projection["revision"] == revision
    if current and _rolled_out(deployment, status):
        return WorkloadHealth(True, "RolledOut", "")
    if deployment.projection.get("paused") and not status.get("updatedReplicas"):
        return WorkloadHealth(
            False,
            ROLLOUT_PAUSED,
            f"the rollout of Deployment {deployment.name!r} is paused, so the change waits. Continue it with kubectl"
            f" rollout resume deployment/{deployment.name}",
        )
    if not current or not _is_observed(deployment, status):
        return WorkloadHealth(False, "RollingOut", "the rollout of this revision has not begun")
    started = [pod for pod in pods if not pod.deleting]
    # A pod that was evicted stays for a while. It explains the state only until it has a successor.
    counted = [pod for pod in started if not has_ended(pod)] or started
    newest = sorted(counted, key=lambda pod: pod.created, reverse=True)
    causes = [cause for pod in newest for cause in pod_causes(pod, claim)]
    return next(iter(causes), None) or _refused(status) or WorkloadHealth(False, "RollingOut", _waits_for(pods))


def _waits_for(pods: Sequence[CachedObject]) -> str:
    """Return what a rollout waits for. The kubelet of a lost node never confirms the end of an evicted pod."""
    evicted = [pod.name for pod in pods if pod.deleting and _is_evicted(pod)]
    if not evicted:
        return "waiting for the pod to be ready"
    return (
        f"waiting for the pod to be ready. Pod {evicted[0]!r} is evicted from its node and has not ended yet, so"
        " the next pod may wait for its end or its volume. If the node is lost, delete the Node, or add the taint"
        " node.kubernetes.io/out-of-service to it"
    )


def _is_evicted(pod: CachedObject) -> bool:
    conditions = pod.projection.get("conditions", ())
    return any(condition.get("reason") == "DeletionByTaintManager" for condition in conditions)


def _suspended(pods: Sequence[CachedObject], why: str) -> WorkloadHealth:
    if any(not has_ended(pod) for pod in pods):
        return WorkloadHealth(False, "Suspending", f"{why}: the pod is finishing its tasks")
    return WorkloadHealth(False, "Suspended", f"{why}: no pod runs; tasks and memory are kept")


def _rolled_out(deployment: CachedObject, status: Mapping[str, Any]) -> bool:
    wanted = ("replicas", "updatedReplicas", "availableReplicas")
    return _is_observed(deployment, status) and all(status.get(key) == 1 for key in wanted)


def _is_observed(deployment: CachedObject, status: Mapping[str, Any]) -> bool:
    """Return whether the status follows the operator's last write. Annotations of others need no rollout."""
    return bool(status.get("observedGeneration", 0) >= deployment.written_generation)


def is_rolling(deployment: CachedObject | None, *, stopped: bool) -> bool:
    """Return whether the pod of the newest template does not serve yet. A stopped workload has no pod."""
    return deployment is not None and not stopped and not _rolled_out(deployment, deployment.projection["status"])


def has_ended(pod: CachedObject) -> bool:
    """Return whether no container of the pod runs or will run again, as after an eviction."""
    return pod.projection.get("phase") in _ENDED


def pod_causes(pod: CachedObject, claim: CachedObject | None = None) -> Iterator[WorkloadHealth]:
    """Yield the reasons why a pod does not run, as far as its status shows them."""
    for condition in pod.projection.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "Unschedulable":
            yield _unscheduled(condition.get("message", ""), claim)
    for container in pod.projection.get("containerStatuses", ()):
        yield from _container_causes(container)
    if pod.projection.get("phase") == "Failed":
        yield WorkloadHealth(
            False,
            "PodFailed",
            f"the pod failed: {pod.projection.get('reason', '')} {pod.projection.get('message', '')}",
        )


def _unscheduled(message: str, claim: CachedObject | None) -> WorkloadHealth:
    if claim is not None and claim.projection["phase"] != "Bound" and "persistentvolumeclaim" in message.lower():
        named = claim.projection.get("storage_class")
        wanted = f"StorageClass {named!r}" if named else "the default StorageClass of the cluster"
        text = f"the volume of claim {claim.name!r} is not bound: {message}. Check {wanted} and free volumes"
        return WorkloadHealth(False, "VolumeUnbound", text)
    return WorkloadHealth(False, "Unschedulable", f"no node can run the pod: {message}")


def _container_causes(container: Mapping[str, Any]) -> Iterator[WorkloadHealth]:
    waiting = container.get("state", {}).get("waiting", {})
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _IMAGE:
        # The kubelet also reports an image volume of the container under the container's name.
        named = _NAMED_IMAGE.search(message)
        image = named[1] if named else container.get("image", "")
        yield WorkloadHealth(False, IMAGE_PULL, f"image {image!r} cannot be pulled: {reason}: {message}")
    elif reason in _CONFIG:
        yield WorkloadHealth(False, "ContainerConfig", f"the container cannot be started: {message or reason}")
    elif reason == "CrashLoopBackOff":
        yield crash(container.get("lastState", {}).get("terminated", {}))
    before = container.get("lastState", {}).get("terminated", {})
    if "running" in container.get("state", {}) and not container.get("ready", False) and before.get("exitCode", 0):
        # Between two crashes the container runs for a moment. The reported cause is still the last exit.
        yield crash(before)
    ended = container.get("state", {}).get("terminated")
    if ended and ended.get("exitCode", 0) != 0:
        yield crash(ended)


def crash(ended: Mapping[str, Any]) -> WorkloadHealth:
    """Return how a container ended, with its termination message."""
    last = str(ended.get("message", "")).strip()[-800:]
    head = f"the container ended with exit code {ended.get('exitCode', '?')} ({ended.get('reason', 'unknown')})"
    remedy = ". It used more memory than its limit: raise resources.limits.memory" if _is_out_of_memory(ended) else ""
    return WorkloadHealth(False, CRASH, f"{head}: {last}{remedy}" if last else f"{head}{remedy}")


def _is_out_of_memory(ended: Mapping[str, Any]) -> bool:
    return ended.get("reason") == "OOMKilled"


def _refused(status: Mapping[str, Any]) -> WorkloadHealth | None:
    for condition in status.get("conditions", ()):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            message = condition.get("message", "")
            reason: ConditionReason = "Quota" if "exceeded quota" in message else "PodRefused"
            return WorkloadHealth(False, reason, f"the pod cannot be created: {message}")
    for condition in status.get("conditions", ()):
        if condition.get("reason") == "ProgressDeadlineExceeded":
            return WorkloadHealth(False, "NotReady", "the pod runs and does not become ready; check its log")
    return None
