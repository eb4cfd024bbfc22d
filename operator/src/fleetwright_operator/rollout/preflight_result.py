"""Decides whether a revision needs a preflight before it may serve, and reads the result of its preflight pod. Pure.

Only the agent's own container counts. A container that an admission webhook added may keep running.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.build.deployment import CONTAINER
from fleetwright_operator.build.preflight import SECONDS
from fleetwright_operator.rollout.probe_result import (
    REFUSED,
    UNAVAILABLE,
    UNUSABLE,
    read_failure,
    read_termination_message,
)
from fleetwright_operator.status.workload_health import CRASH, crash, pod_causes

TRYING: Final = "Preflight"
FAILED: Final = "PreflightFailed"
REASONS = {TRYING, FAILED}
"""Reasons of `Programmed`.

The operator leaves them at an event of the pod or of a reference, or when a slot becomes free.
"""
_OWN_PROGRAM: Final = (
    f". If spec.image has another program, this must end, or answer GET /readyz on port {names.OPS_PORT}"
    " (`probe agent` in docs/runtime-contract.md)"
)


@dataclass(frozen=True, slots=True)
class PreflightPending:
    """No result yet; `why` says what keeps the pod from running, if known."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class PreflightPassed:
    """The program exited successfully, or serves."""


@dataclass(frozen=True, slots=True)
class PreflightFailed:
    """The program exited with an error. The same revision would fail again."""

    message: str


@dataclass(frozen=True, slots=True)
class PreflightInterrupted:
    """The pod's failure says nothing about the revision; another pod may succeed."""

    message: str
    late: bool = False
    """True if the pod reached its deadline."""


PreflightResult = PreflightPending | PreflightPassed | PreflightFailed | PreflightInterrupted


def is_replacement(deployment: CachedObject | None, *, template: str, suspended: bool) -> bool:
    """Return whether the pod template would change. `template` is the hash of the desired template."""
    if deployment is None or suspended:
        return False
    # A Deployment without the hash was written by an older operator, so a change cannot be detected.
    return deployment.annotations.get(names.TEMPLATE_ANNOTATION, template) != template


def is_serving(deployment: CachedObject | None) -> bool:
    return deployment is not None and bool(deployment.projection["status"].get("availableReplicas"))


def evaluate_pod(pod: CachedObject | None) -> PreflightResult:
    if pod is None:
        return PreflightPending()
    if pod.deleting:
        return PreflightInterrupted("its pod was deleted")
    main = _main(pod)
    ended = main.get("state", {}).get("terminated", {})
    if main.get("ready"):
        return PreflightPassed()
    if lost := _lost(pod, ended):
        return lost
    phase = pod.projection.get("phase")
    if phase == "Succeeded" or ended.get("exitCode") == 0:
        return PreflightPassed()
    if ended or phase == "Failed":
        return _refused(pod, ended)
    cause = next(pod_causes(pod), None)
    return PreflightPending(cause.message if cause else "")


def _main(pod: CachedObject) -> Mapping[str, Any]:
    statuses = pod.projection.get("containerStatuses", ())
    return next((status for status in statuses if status.get("name") == CONTAINER), {})


def _lost(pod: CachedObject, ended: Mapping[str, Any]) -> PreflightInterrupted | None:
    """Return the reason why the node or another actor ended the pod. Only the kubelet sets `reason`; no program can."""
    reason, message = pod.projection.get("reason", ""), pod.projection.get("message", "")
    if reason == "DeadlineExceeded":
        if _ended_in_time(pod, ended):
            return None
        return PreflightInterrupted(
            f"it did not end within {SECONDS} seconds{_OWN_PROGRAM if ended.get('startedAt') else ''}", late=True
        )
    if pod.projection.get("phase") == "Failed" and reason:
        return PreflightInterrupted(f"its pod failed, {reason}" + (f": {message}" if message else ""))
    if ended.get("reason") == "ContainerStatusUnknown":
        return PreflightInterrupted("its node lost track of the container")
    return None


def _ended_in_time(pod: CachedObject, ended: Mapping[str, Any]) -> bool:
    """Return whether the agent's container ended before the deadline. An added container may run until the deadline."""
    finished = ended.get("finishedAt")
    return (
        bool(ended.get("exitCode") and finished) and parse_timestamp(finished) - parse_timestamp(pod.created) < SECONDS
    )


def _refused(pod: CachedObject, ended: Mapping[str, Any]) -> PreflightFailed | PreflightInterrupted:
    """Return the error message of the agent's container, or of the init container that ended first."""
    if ended:
        return PreflightFailed(read_termination_message(ended) if ended.get("exitCode") == 2 else crash(ended).message)
    states = (status.get("state", {}) for status in pod.projection.get("containerStatuses", ()))
    failures = (read_failure(state.get("terminated") or {}) for state in states)
    failure = next(filter(None, failures), None)
    if failure and failure.reason in {REFUSED, UNUSABLE}:
        return PreflightFailed(failure.message)
    if failure and failure.reason == UNAVAILABLE:
        return PreflightInterrupted(failure.message)
    cause = next((cause for cause in pod_causes(pod) if cause.reason == CRASH), None)
    return PreflightFailed(cause.message) if cause else PreflightInterrupted("its pod failed")
