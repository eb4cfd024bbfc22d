"""The condition types of the API, and how a list of them is kept. Pure.

Stages are positive, and each can be true only when those before it are; abnormal conditions are present only
while they are true.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ACCEPTED = "Accepted"
"""The spec itself is valid."""
RESOLVED = "ReferencesResolved"
"""Everything the spec names exists and may be used."""
PROGRAMMED = "Programmed"
"""The children are written as the spec wants them."""
AVAILABLE = "Available"
"""The current revision is rolled out and its pod is ready. Unknown where nobody could look."""
READY = "Ready"
"""All of the above."""

CONFLICT = "Conflict"
"""Abnormal-true, present only when true: an object of somebody else has the name of a child."""
DEGRADED = "Degraded"
"""Abnormal-true, present only when true: the agent runs, without something it should have."""

CARD_DRIFT = "CardDrift"
"""Abnormal-true, present only when true: the running agent serves another card than was compiled for it."""

BUDGET_EXCEEDED = "BudgetExceeded"
"""Abnormal-true, present only when true: the agent takes on nothing until a budget has room again."""

AUDIT_TRAIL_CUT = "AuditTrailCut"
"""Abnormal-true, present only when true: a process resumed the audit trail without lines that were recorded before."""

MODEL_UNPRICED = "ModelUnpriced"
"""Abnormal-true, present only when true: calls of a model cost nothing on paper, because nobody said its price."""

MODEL_ASSUMED = "ModelAssumed"
"""Abnormal-true, present only when true: the window of a model is a guess, or what is known is its family's."""

ABNORMAL = {AUDIT_TRAIL_CUT, CONFLICT, DEGRADED, CARD_DRIFT, BUDGET_EXCEEDED, MODEL_UNPRICED, MODEL_ASSUMED}

PROGRESS = frozenset(
    {
        "Blocked",
        "McpServerPending",
        "NotObserved",
        "Preflight",
        "RollingOut",
        "SkillPending",
        "SourcePending",
        "Suspended",
        "Suspending",
    }
)
"""Reasons that say what happens next, or what the spec asks for. A person has nothing to mend."""

_MESSAGE_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: bool | None
    """None is Unknown."""
    reason: str
    message: str = ""


def blocked(kind: str, by: str, *, note: str = "") -> Condition:
    return Condition(kind, False, "Blocked", f"blocked by {by}{note}")


def ready(stages: Sequence[Condition]) -> Condition:
    """Derived, never set: the first stage that does not hold says why."""
    for stage in stages:
        if stage.status is not True:
            return Condition(READY, False if stage.status is False else None, stage.reason, stage.message)
    return Condition(READY, True, "Ready", "")


def condition_list(
    wanted: Iterable[Condition], *, previous: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """The conditions as the API holds them; the transition time moves only when a status changes."""
    before = {condition["type"]: condition for condition in previous}
    return [_document(condition, before.get(condition.type), generation=generation, now=now) for condition in wanted]


def _document(condition: Condition, before: Mapping[str, Any] | None, *, generation: int, now: str) -> dict[str, Any]:
    status = {True: "True", False: "False", None: "Unknown"}[condition.status]
    unmoved = before is not None and before["status"] == status
    return {
        "type": condition.type,
        "status": status,
        "reason": condition.reason,
        "message": condition.message[:_MESSAGE_LIMIT],
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and unmoved else now,
    }
