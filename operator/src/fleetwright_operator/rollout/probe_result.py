"""What a probe's pod has to say: nothing yet, a report, or why there is none. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_operator.build.probe import CONTAINER
from fleetwright_operator.encoding.untrusted_json import read_json
from fleetwright_operator.kube.cached_object import Entry
from fleetwright_operator.status.workload_health import Health, pod_causes

REFUSED = "Refused"
"""The program looked and said why not; every other reason is the pod's or the cluster's."""
UNAVAILABLE = "Unavailable"
"""The program could not look, for something elsewhere does not answer as it should."""
REPORT_LIMIT = 64 * 1024
_WORDS_LIMIT = 800
_SPOKEN = {2: REFUSED, 75: UNAVAILABLE}
"""By exit code: the ends at which our program says why."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The pod has not ended; `why` says what keeps it from running, where something does."""

    why: Health | None = None


@dataclass(frozen=True, slots=True)
class Report:
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """No report."""

    reason: str
    message: str


Answer = Pending | Report | Failure


def unreported(pod: Entry | None) -> Pending | Failure | None:
    """What is to be said without the pod's log; None when its report can be read."""
    phase = pod.facts.get("phase") if pod else None
    if pod is None or phase == "Succeeded":
        return None if pod else Pending()
    for container in pod.facts.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated", {})
        # Nothing starts the program again, while a sidecar may be: that one counts when the pod is over.
        final = phase == "Failed" or container.get("name") == CONTAINER
        if final and ended.get("exitCode") in _SPOKEN:
            return Failure(_SPOKEN[ended["exitCode"]], last_words(ended))
    return _failed(pod) if phase == "Failed" else Pending(next(pod_causes(pod), None))


def parse_report(line: str) -> Report | Failure:
    """The last line of a log as a report."""
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
        return Failure("DeadlineExceeded", "the probe did not end in its time")
    cause = next(pod_causes(pod), None)
    return Failure(cause.reason, cause.message) if cause else Failure("PodFailed", "the probe's pod failed")


def last_words(ended: Mapping[str, Any]) -> str:
    """Of a container that our program ended: the last line, without the name of the program before it."""
    lines = str(ended.get("message", "")).strip().splitlines()
    return lines[-1].removeprefix("fleetwright-agent: ")[-_WORDS_LIMIT:] if lines else "it gave no reason"
