"""The result of a probe's pod: pending, a report, or a failure. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_operator.build.probe import CONTAINER
from fleetwright_operator.encoding.untrusted_json import read_json
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.status.workload_health import Health, pod_causes

REFUSED = "Refused"
"""The program ran and reported an error. Every other reason comes from the pod or the cluster."""
UNAVAILABLE = "Unavailable"
"""The program could not run its check, because something it depends on does not answer properly."""
REPORT_LIMIT = 64 * 1024
_WORDS_LIMIT = 800
_SPOKEN = {2: REFUSED, 75: UNAVAILABLE}
"""By exit code: the exits at which the program reports why."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The pod has not ended; `why` says what keeps it from running, if known."""

    why: Health | None = None


@dataclass(frozen=True, slots=True)
class Report:
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """There is no report; the fields say why."""

    reason: str
    message: str


Answer = Pending | Report | Failure


def unreported(pod: Entry | None) -> Pending | Failure | None:
    """Return the result if it does not need the pod's log; None if the report can be read."""
    phase = pod.facts.get("phase") if pod else None
    if pod is None or phase == "Succeeded":
        return None if pod else Pending()
    for container in pod.facts.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        # The probe's program is never restarted, but a sidecar may be, so a sidecar counts only when the pod has
        # failed.
        final = phase == "Failed" or container.get("name") == CONTAINER
        if final and ended.get("exitCode") in _SPOKEN:
            return Failure(_SPOKEN[ended["exitCode"]], last_words(ended))
    return _failed(pod) if phase == "Failed" else Pending(next(pod_causes(pod), None))


def parse_report(line: str) -> Report | Failure:
    """Parse the last line of a log as a report."""
    if len(line.encode()) >= REPORT_LIMIT:
        return Failure("NoReport", f"the probe's report is longer than {REPORT_LIMIT} bytes")
    try:
        document = read_json(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return Failure("NoReport", "the probe's log does not end with a report")
    return Report(document)


def _failed(pod: Entry) -> Failure:
    if pod.facts.get("reason") == "DeadlineExceeded":
        return Failure("DeadlineExceeded", "the probe did not end within its deadline")
    cause = next(pod_causes(pod), None)
    return Failure(cause.reason, cause.message) if cause else Failure("PodFailed", "the probe's pod failed")


def last_words(ended: Mapping[str, Any]) -> str:
    """Return the last line of the program's termination message, without the program's name."""
    lines = str(ended.get("message", "")).strip().splitlines()
    return lines[-1].removeprefix("fleetwright-agent: ")[-_WORDS_LIMIT:] if lines else "it gave no reason"
