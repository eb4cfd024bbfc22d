"""The result of a probe's pod: pending, a report, or a failure. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.probe import CONTAINER
from fleetwright_operator.status.workload_health import WorkloadHealth, pod_causes

REFUSED = "Refused"
"""The program ran and reported an error. All other reasons come from the pod or the cluster."""
UNUSABLE = "UnusableContent"
"""The program ran and rejected the content of a fixed commit or image, so that another probe would fail too."""
UNAVAILABLE = "Unavailable"
"""The program could not run its check, because a service that it depends on does not answer properly."""
REPORT_LIMIT = 64 * 1024
_WORDS_LIMIT = 800
_SPOKEN = {2: REFUSED, 65: UNUSABLE, 75: UNAVAILABLE}
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


def unreported(pod: CachedObject | None) -> ProbePending | ProbeFailure | None:
    """Return the result if the pod's status alone determines it; None if the log has the report."""
    phase = pod.projection.get("phase") if pod else None
    if pod is None or phase == "Succeeded":
        return None if pod else ProbePending()
    for container in pod.projection.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        # The probe's program is never restarted, but a sidecar may be, so a sidecar counts only when the pod has
        # failed.
        final = phase == "Failed" or container.get("name") == CONTAINER
        if final and ended.get("exitCode") in _SPOKEN:
            return ProbeFailure(_SPOKEN[ended["exitCode"]], last_words(ended))
    return _failed(pod) if phase == "Failed" else ProbePending(next(pod_causes(pod), None))


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


def _failed(pod: CachedObject) -> ProbeFailure:
    if pod.projection.get("reason") == "DeadlineExceeded":
        return ProbeFailure("DeadlineExceeded", "the probe did not end within its deadline")
    cause = next(pod_causes(pod), None)
    return ProbeFailure(cause.reason, cause.message) if cause else ProbeFailure("PodFailed", "the probe's pod failed")


def last_words(ended: Mapping[str, Any]) -> str:
    """Return the last line of the program's termination message, without the program's name."""
    lines = str(ended.get("message", "")).strip().splitlines()
    return lines[-1].removeprefix("fleetwright-agent: ")[-_WORDS_LIMIT:] if lines else "it gave no reason"
