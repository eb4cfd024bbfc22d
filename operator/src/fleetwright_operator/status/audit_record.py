"""The recorded end of an agent's audit trail in the Agent's status, and whether the trail still contains it. Pure.

The lines of a trail form a hash chain, so only the removal of its last lines goes unnoticed. The lines can be removed
while no process runs, because the next process continues at the end of the file. The record is therefore stored outside
of the volume. If a process resumes with fewer lines than recorded, lines were removed.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.violation import Violation
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.agent_report import AuditReport

RECORD_SECONDS: Final = 600
"""The shortest time between two records of the same process, because each record is a write of the status."""
_SHOWN: Final = 12
"""The number of digits of a hash that a user copies."""

Record = Mapping[str, Any]


def record_of(previous: Record | None, report: AuditReport | None, *, acknowledged: str, now: str) -> Record | None:
    """Return `status.auditTrail`.

    Args:
        previous: The record so far.
        report: The running agent's report about its trail; None if it was not read or there is no trail yet.
        acknowledged: The annotation with which a user accepts the loss of lines.
        now: The present time as the API writes it.
    """
    if previous is None or report is None:
        return previous or (_record(report, now) if report else None)
    if "lostAt" in previous:
        return _record(report, now) if acknowledged == previous["hash"][:_SHOWN] else previous
    if _has_lost_lines(previous, report):
        return {**previous, "lostAt": now}
    due = parse_timestamp(now) - parse_timestamp(previous["recordedAt"]) >= RECORD_SECONDS
    grown = report.hash != previous["hash"]
    return _record(report, now) if grown and (due or report.process != previous["process"]) else previous


def lost_lines(record: Record | None) -> Violation | None:
    """Return the abnormal condition of a trail that no longer contains its recorded end."""
    if record is None or "lostAt" not in record:
        return None
    shown = record["hash"][:_SHOWN]
    return Violation(
        "EndMissing",
        f"the audit trail had {record['lines']} lines at {record['recordedAt']} and had lost the last of them when"
        " a process resumed it; run"
        f" `fleetwright-agent audit verify --expect {record['lines']}:{record['hash']}`"
        " in the pod, then annotate the Agent with"
        f" {names.AUDIT_ACKNOWLEDGED_ANNOTATION}={shown} to begin a new record",
    )


def _record(report: AuditReport, now: str) -> Record:
    return {"lines": report.lines, "hash": report.hash, "process": report.process, "recordedAt": now}


def _has_lost_lines(previous: Record, report: AuditReport) -> bool:
    if report.process == previous["process"]:
        lines, digest = report.lines, report.hash
    else:
        lines, digest = report.resumed_lines, report.resumed_hash
    return bool(lines < previous["lines"] or (lines == previous["lines"] and digest != previous["hash"]))
