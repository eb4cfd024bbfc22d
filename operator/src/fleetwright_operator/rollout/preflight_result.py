"""Whether a revision must be proven before it may serve, and what its preflight pod has shown. Pure.

The agent's own container decides: what an admission webhook put beside it may run on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.build.deployment import CONTAINER
from fleetwright_operator.build.preflight import SECONDS
from fleetwright_operator.encoding.timestamps import moment
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.rollout.probe_result import REFUSED, UNAVAILABLE, Failure, last_words, unreported
from fleetwright_operator.status.workload_health import CRASH, crash, pod_causes

TRYING = "Preflight"
FAILED = "PreflightFailed"
REASONS = {TRYING, FAILED}
"""Of `Programmed`; what ends them is an event of the pod or of what the agent refers to, or the next turn."""
ENDED = {"Succeeded", "Failed"}
"""Phases in which a pod runs nothing."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Not shown yet; `why` says what keeps the pod from running, where something does."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """The program ended well, or serves."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The program ended by itself, and not well: the same revision would again."""

    message: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The pod says nothing of the revision, and another one may."""

    message: str
    late: bool = False
    """It had all its time."""


Verdict = Pending | Proven | Refused | Lost


def replaces(deployment: Entry | None, *, template: str, suspended: bool) -> bool:
    """Whether a pod of another template would take the place of what is there. `template` is the hash of the wanted."""
    if deployment is None or suspended:
        return False
    # A Deployment of an operator that wrote no such hash tells nothing.
    return deployment.annotations.get(names.TEMPLATE_ANNOTATION, template) != template


def serves(deployment: Entry | None) -> bool:
    return deployment is not None and bool(deployment.facts["status"].get("availableReplicas"))


def verdict(pod: Entry | None) -> Verdict:
    if pod is None:
        return Pending()
    if pod.deleting:
        return Lost("its pod was taken away")
    main = _main(pod)
    ended = main.get("state", {}).get("terminated", {})
    if main.get("ready"):
        return Proven()
    if lost := _lost(pod, ended):
        return lost
    phase = pod.facts.get("phase")
    if phase == "Succeeded" or ended.get("exitCode") == 0:
        return Proven()
    if ended or phase == "Failed":
        return _refused(pod, ended)
    cause = next(pod_causes(pod), None)
    return Pending(cause.message if cause else "")


def _main(pod: Entry) -> Mapping[str, Any]:
    statuses = pod.facts.get("containerStatuses", ())
    return next((status for status in statuses if status.get("name") == CONTAINER), {})


def _lost(pod: Entry, ended: Mapping[str, Any]) -> Lost | None:
    """Its node, or somebody else, ended the pod: the kubelet says why in `reason`, which no program can set."""
    reason, message = pod.facts.get("reason", ""), pod.facts.get("message", "")
    if reason == "DeadlineExceeded":
        return None if _ended_in_time(pod, ended) else Lost(f"it did not end within {SECONDS} seconds", late=True)
    if pod.facts.get("phase") == "Failed" and reason:
        return Lost(f"its pod was lost, {reason}" + (f": {message}" if message else ""))
    if ended.get("reason") == "ContainerStatusUnknown":
        return Lost("its node lost the container")
    return None


def _ended_in_time(pod: Entry, ended: Mapping[str, Any]) -> bool:
    """What was put beside the program may live on until the deadline."""
    return bool(ended.get("exitCode")) and moment(ended["finishedAt"]) - moment(pod.created) < SECONDS


def _refused(pod: Entry, ended: Mapping[str, Any]) -> Refused | Lost:
    """In the words of the agent's container; in those of what goes before it, where that ended first."""
    if ended:
        return Refused(last_words(ended) if ended.get("exitCode") == 2 else crash(ended).message)
    said = unreported(pod)
    if isinstance(said, Failure) and said.reason == REFUSED:
        return Refused(said.message)
    if isinstance(said, Failure) and said.reason == UNAVAILABLE:
        return Lost(said.message)
    cause = next((cause for cause in pod_causes(pod) if cause.reason == CRASH), None)
    return Refused(cause.message) if cause else Lost("its pod failed")
