"""Recognises a runtime that does not answer the kubelet's startup probe, such as an image without the contract. Pure.

The kubelet reports such a container as running until the deadline of the probe, ends it, and starts it again. Its exit
code then shows only the signal, so it would look like a crash without a cause.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fleetwright_api import names
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.workload_health import CRASH, WorkloadHealth, has_ended

STARTUP_PROBE_FAILED: Final = "StartupProbeFailed"
_REPLACEABLE: Final = frozenset({"RollingOut", "NotReady", CRASH})
_SIGNALLED: Final = frozenset({0, 137, 143})
"""The exit codes of a program that ends after SIGTERM, or that SIGKILL or SIGTERM ends (128 + the signal)."""
_OUT_OF_MEMORY: Final = "OOMKilled"


def with_failed_startup_probe(
    health: WorkloadHealth, pods: Sequence[CachedObject], *, container: str, deadline: int, now: int
) -> WorkloadHealth:
    """Return the health with a runtime that does not answer as the reason why the pod is not ready.

    Another reason of the Deployment or the pod stays.

    Args:
        health: The health by the Deployment and its pods.
        pods: The pods of the agent.
        container: The name of the agent's container.
        deadline: The seconds that the startup probe waits.
        now: The time in seconds since the epoch.
    """
    if health.status is not False or health.reason not in _REPLACEABLE:
        return health
    for pod, state in _unstarted_containers(pods, container):
        if _has_exceeded_deadline(state, deadline, now) or _was_ended_by_probe(pod, state, deadline):
            image = state.get("image", "")
            text = (
                f"the container of image {image!r} did not answer GET /healthz on port {names.OPS_PORT} within"
                f" {deadline} seconds. An image in spec.image must serve the ports and paths of the runtime contract"
                " (docs/runtime-contract.md). The log of the container shows what it does instead"
            )
            return WorkloadHealth(False, STARTUP_PROBE_FAILED, text)
    return health


def seconds_until_deadline(pods: Sequence[CachedObject], *, container: str, deadline: int, now: int) -> int | None:
    """Return the seconds until the first container that has not answered yet is too late; None if there is none."""
    running = [state.get("state", {}).get("running") or {} for _, state in _unstarted_containers(pods, container)]
    ends = (parse_timestamp(each["startedAt"]) + deadline for each in running if each.get("startedAt"))
    return min((end - now for end in ends if end > now), default=None)


def _unstarted_containers(
    pods: Sequence[CachedObject], container: str
) -> Iterator[tuple[CachedObject, Mapping[str, Any]]]:
    for pod in pods:
        if pod.deleting or has_ended(pod):
            continue
        for state in pod.projection.get("containerStatuses", ()):
            if state.get("name") == container and not state.get("started") and not state.get("ready"):
                yield pod, state


def _has_exceeded_deadline(state: Mapping[str, Any], deadline: int, now: int) -> bool:
    started = (state.get("state", {}).get("running") or {}).get("startedAt")
    return bool(started) and now - parse_timestamp(started) >= deadline


def _was_ended_by_probe(pod: CachedObject, state: Mapping[str, Any], deadline: int) -> bool:
    """Return whether the last run of the container reached the deadline and was ended, and the pod was never ready."""
    ends = (state.get("state", {}).get("terminated"), state.get("lastState", {}).get("terminated"))
    ended: Mapping[str, Any] = next((each for each in ends if each), {})
    if not ended.get("startedAt") or not ended.get("finishedAt") or ended.get("reason") == _OUT_OF_MEMORY:
        return False
    started, finished = parse_timestamp(ended["startedAt"]), parse_timestamp(ended["finishedAt"])
    is_signalled = ended.get("exitCode") in _SIGNALLED
    return is_signalled and finished - started >= deadline and not _was_ready_after(pod, started)


def _was_ready_after(pod: CachedObject, moment: int) -> bool:
    """Return whether the pod was ready after a time: `Ready` has changed since then."""
    changes = (
        each.get("lastTransitionTime") for each in pod.projection.get("conditions", ()) if each.get("type") == "Ready"
    )
    return any(parse_timestamp(change) > moment for change in changes if change)
