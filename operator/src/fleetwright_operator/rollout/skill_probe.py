"""The probe result of a Skill whose files are stored outside of the cluster, as the Skill's status stores it. Pure.

Commits and image digests are immutable, so a successful probe is never repeated, and neither is one that has rejected
the content. Any other failure is stored as well, but its probe is repeated.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api.skill_document import InvalidSkill, read_head
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.skill import SkillSourceSpec, SkillView
from fleetwright_api.violation import Violation
from fleetwright_operator.build.config.skill_permissions import declared_permissions
from fleetwright_operator.rollout.probe_result import (
    REFUSED,
    UNAVAILABLE,
    UNUSABLE,
    ProbeFailure,
    ProbePending,
    ProbeResult,
)
from fleetwright_operator.status.status import StageOutcomes
from fleetwright_operator.status.workload_health import IMAGE_PULL

SOURCE_PENDING: Final = "SourcePending"
_INVALID: Final = "InvalidSkill"
_LONGEST = 1024
_REFUSALS_OF_A_REGISTRY: Final = (
    "not found",
    "manifest unknown",
    "denied",
    "unauthorized",
    "forbidden",
    "invalid reference",
)
"""Parts of the messages of container runtimes about answers of a registry. A registry that is down gives no answer."""


def has_answer(status: Mapping[str, Any], question: str) -> bool:
    return bool(status.get("look", {}).get("question") == question)


def has_failed(status: Mapping[str, Any]) -> bool:
    return "failure" in status.get("look", {})


def is_final(status: Mapping[str, Any]) -> bool:
    """Return whether the probe has failed for a reason that cannot change."""
    return failure_reason(status) in {_INVALID, UNUSABLE}


def failure_reason(status: Mapping[str, Any]) -> str:
    """Return the reason of the last failure; empty if the last probe did not fail."""
    return str(status.get("look", {}).get("failure", {}).get("reason", ""))


def with_pull_failure(source: SkillSourceSpec, answer: ProbeResult) -> ProbeResult:
    """Report a failing image pull as the probe's result.

    Otherwise the pod would reach its deadline without the reason.
    """
    why = answer.why if isinstance(answer, ProbePending) else None
    digest = source.image.reference.rpartition("@")[2] if source.image else ""
    if why and why.reason == IMAGE_PULL and digest and digest in why.message:
        is_refused = any(text in why.message.lower() for text in _REFUSALS_OF_A_REGISTRY)
        return ProbeFailure(REFUSED if is_refused else UNAVAILABLE, why.message)
    return answer


def status_of_probe(skill: SkillView, source: SkillSourceSpec, question: str, answer: ProbeResult) -> dict[str, Any]:
    """Return the part of the status that a probe's result changes.

    Agents use the last successful result until the next one.
    """
    if isinstance(answer, ProbePending):
        return {}
    if isinstance(answer, ProbeFailure):
        return _failed(question, answer.reason, answer.message)
    name, report = skill.name, answer.document
    head, files, digest = report.get("head"), report.get("files"), report.get("digest")
    if not (isinstance(head, str) and isinstance(files, list) and isinstance(digest, str)):
        return _failed(question, "NoReport", "the probe's report does not have the expected format")
    try:
        description = read_head(name, head, [str(path) for path in files])
    except InvalidSkill as invalid:
        return _failed(question, _INVALID, str(invalid))
    facts = {"name": name, "description": description, "digest": digest, "source": encode(source), "snapshot": None}
    return {
        **facts,
        "permissions": declared_permissions(skill.spec.permissions),
        "look": {"question": question},
    }


def outcomes_of_probe(
    skill: SkillView, question: str, facts: Mapping[str, Any], pending: ProbePending | None
) -> StageOutcomes:
    """Return the outcome for the conditions; `facts` are the new parts of the status."""
    status = {**skill.status, **facts}
    if not has_answer(status, question):
        why = f"; the probe does not run: {pending.why.message}" if pending and pending.why else ""
        return StageOutcomes(resolved=[Violation(SOURCE_PENDING, f"its files are being checked{why}")], facts=facts)
    failure = status["look"].get("failure")
    if failure is None:
        known = {**facts, "permissions": declared_permissions(skill.spec.permissions)}
        return StageOutcomes(
            resolved=(), written="nothing to write: its agents fetch the files themselves", facts=known
        )
    if failure["reason"] == _INVALID:
        return StageOutcomes(accepted=[Violation(_INVALID, failure["message"])], facts=facts)
    unusable = failure["reason"] in (REFUSED, UNUSABLE, UNAVAILABLE)
    violation = Violation("SourceUnusable" if unusable else "ProbeFailed", failure["message"])
    return StageOutcomes(resolved=[violation], facts=facts)


def _failed(question: str, reason: str, message: str) -> dict[str, Any]:
    return {"look": {"question": question, "failure": {"reason": reason, "message": message[:_LONGEST]}}}
