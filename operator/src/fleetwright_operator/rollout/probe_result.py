"""The result of a probe's pod: pending, a report, or a failure. Pure.

The container that runs the probe's program decides. A container that an admission webhook added may run for ever, or
fail.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.probe import CONTAINER
from fleetwright_operator.status.workload_health import WorkloadHealth, crash, pod_causes

REFUSED = "Refused"
"""The program ran and reported an error. All other reasons come from the pod or the cluster."""
UNUSABLE = "UnusableContent"
"""The program ran and rejected the content of a fixed commit or image, so that another probe would fail too."""
UNAVAILABLE = "Unavailable"
"""The program could not run its check, because a service that it depends on does not answer properly."""
REPORT_LIMIT = 64 * 1024
_WORDS_LIMIT = 800
_REASONS_BY_EXIT_CODE = {2: REFUSED, 65: UNUSABLE, 75: UNAVAILABLE}
"""The reasons by exit code, for the exits at which the program reports an error itself."""


@dataclass(frozen=True, slots=True)
class ProbePending:
    """The pod has not ended; `why` says what keeps it from running, if known."""

    why: WorkloadHealth | None = None


@dataclass(frozen=True, slots=True)
class ProbeReport:
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    """The probe has no report. The fields give the reason."""

    reason: str
    message: str


ProbeResult = ProbePending | ProbeReport | ProbeFailure


def unreported(pod: CachedObject | None, *, container: str = CONTAINER) -> ProbePending | ProbeFailure | None:
    """Return the result if the pod's status alone determines it; None if the log of `container` has the report."""
    if pod is None:
        return ProbePending()
    phase = pod.projection.get("phase")
    ended = termination_of(pod, container)
    if phase == "Succeeded" or ended.get("exitCode") == 0:
        return None
    if failure := read_failure(ended):
        return failure
    if phase == "Failed":
        return _failed(pod, ended)
    if ended:
        return _crashed(ended)
    return ProbePending(next(pod_causes(pod), None))


def termination_of(pod: CachedObject, container: str) -> Mapping[str, Any]:
    """Return how a container ended; an empty mapping if it has not ended. The program is never restarted."""
    for status in pod.projection.get("containerStatuses", ()):
        if status.get("name") == container:
            ended: Mapping[str, Any] = status.get("state", {}).get("terminated") or {}
            return ended
    return {}


def read_failure(ended: Mapping[str, Any]) -> ProbeFailure | None:
    """Return the error that a program reported itself before it ended; None if it did not."""
    reason = _REASONS_BY_EXIT_CODE.get(ended.get("exitCode", 0))
    return ProbeFailure(reason, read_termination_message(ended)) if reason else None


def parse_report(line: str) -> ProbeReport | ProbeFailure:
    """Parse the last line of a log as a report."""
    if len(line.encode()) >= REPORT_LIMIT:
        return ProbeFailure("NoReport", f"the probe's report is longer than {REPORT_LIMIT} bytes")
    try:
        document = read_json(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return ProbeFailure("NoReport", "the probe's log does not end with a report")
    return ProbeReport(document)


def _failed(pod: CachedObject, ended: Mapping[str, Any]) -> ProbeFailure:
    if pod.projection.get("reason") == "DeadlineExceeded":
        return ProbeFailure("DeadlineExceeded", "the probe did not end within its deadline")
    if ended:
        return _crashed(ended)
    cause = next(pod_causes(pod), None)
    return ProbeFailure(cause.reason, cause.message) if cause else ProbeFailure("PodFailed", "the probe's pod failed")


def _crashed(ended: Mapping[str, Any]) -> ProbeFailure:
    cause = crash(ended)
    return ProbeFailure(cause.reason, cause.message)


def read_termination_message(ended: Mapping[str, Any]) -> str:
    """Return the last line of the program's termination message, without the program's name."""
    lines = str(ended.get("message", "")).strip().splitlines()
    return lines[-1].removeprefix("fleetwright-agent: ")[-_WORDS_LIMIT:] if lines else "it gave no reason"
