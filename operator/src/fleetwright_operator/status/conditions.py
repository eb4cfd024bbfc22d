"""The condition types of the API, and how a list of conditions is updated. Pure.

The conditions from `Accepted` to `Ready` are stages with positive polarity. A stage can be true only if all stages
before it are true. Abnormal conditions are present only while they are true.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.condition_reasons import ConditionReason, ProblemReason

ACCEPTED = "Accepted"
"""The spec itself is valid."""
RESOLVED = "ReferencesResolved"
"""Everything the spec refers to exists and may be used."""
PROGRAMMED = "Programmed"
"""The children match the spec."""
AVAILABLE = "Available"
"""The current revision is rolled out and its pod is ready. Unknown if the rollout could not be observed."""
WORKSPACE_READY = "WorkspaceReady"
"""The workspace of an agent runs. Present only for agents with a workspace; it is no part of `Ready`."""
READY = "Ready"
"""All of the stages above are true."""

CONFLICT: Final = "Conflict"
"""Abnormal-true, present only when true: an object that Fleetwright does not manage has the name of a child."""
DEGRADED = "Degraded"
"""Abnormal-true, present only when true: the agent runs without a tool, a server or a plugin that the spec names, or
its event loop is blocked.
"""

CARD_DRIFT = "CardDrift"
"""Abnormal-true, present only when true: the running agent serves a card that differs from the compiled one."""

BUDGET_EXCEEDED = "BudgetExceeded"
"""Abnormal-true, present only when true: the agent accepts no new tasks until the budget allows another call."""

AUDIT_TRAIL_CUT = "AuditTrailCut"
"""Abnormal-true, present only when true: a process resumed the audit trail without lines that the status had recorded.
"""

MODEL_REFUSED = "ModelRefused"
"""Abnormal-true, present only when true: the provider refused the last call to a model with 401, 402, 403 or 404."""

MODEL_UNPRICED = "ModelUnpriced"
"""Abnormal-true, present only when true: a model has no known price, so its calls are counted as free."""

MODEL_ASSUMED = "ModelAssumed"
"""Abnormal-true, present only when true: a model's window is assumed, or its data is that of the model family."""

FLEET_INCOMPLETE = "FleetIncomplete"
"""Abnormal-true, present only when true: a setting in `spec.fleet` cannot take effect, or the gateway cannot serve the
agent.
"""

WRITE_LOOP = "WriteLoop"
"""Abnormal-true, present only when true: the operator repeats a write although nothing has changed, and delays it."""

STORAGE_DIFFERS = "StorageDiffers"
"""Abnormal-true, present only when true: a volume claim cannot have the size or the class that the spec states."""

DECIDED = "Decided"
"""A person has decided about an Approval. False while it waits, and if it ended without a decision."""
DELIVERED = "Delivered"
"""The agent has accepted the decision about an Approval. Present once there is a decision."""
ESCALATED = "Escalated"
"""Abnormal-true, present only when true: an Approval waits for longer than `spec.approvals.escalateAfter`."""

ABNORMAL = {
    AUDIT_TRAIL_CUT,
    ESCALATED,
    FLEET_INCOMPLETE,
    CONFLICT,
    DEGRADED,
    CARD_DRIFT,
    BUDGET_EXCEEDED,
    MODEL_REFUSED,
    MODEL_UNPRICED,
    MODEL_ASSUMED,
    STORAGE_DIFFERS,
    WRITE_LOOP,
}

PROGRESS: Final[frozenset[ProblemReason]] = frozenset(
    {
        "Blocked",
        "Cloning",
        "Delivering",
        "McpServerPending",
        "NotObserved",
        "Pending",
        "Preflight",
        "RollingOut",
        "SkillPending",
        "SourcePending",
        "Suspended",
        "Suspending",
        "WaitingForMemory",
    }
)
"""Reasons for progress, or for a state that the spec asks for. The user does not need to act."""

EVENT_LOOP_STALLED: Final = "EventLoopStalled"
"""The reason of `Degraded`, and of `Available` while the pod is not ready, while the agent's event loop is blocked."""

WAITING_FOR_MEMORY: Final = "WaitingForMemory"
"""The reason of `Available` while the pod waits for the memory volume, which another pod still uses."""
ASLEEP: Final = "Asleep"
"""The reason of `Available` and `Ready` while the agent sleeps."""
_MESSAGE_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: bool | None
    """None means Unknown."""
    reason: ConditionReason
    message: str = ""


def blocked(kind: str, by: str, *, note: str = "") -> Condition:
    return Condition(kind, False, "Blocked", f"blocked by {by}{note}")


def ready(stages: Sequence[Condition]) -> Condition:
    """Derive `Ready` from the stages: the first stage that is not true gives the reason."""
    for stage in stages:
        if stage.status is not True:
            return Condition(READY, False if stage.status is False else None, stage.reason, stage.message)
    # An agent that sleeps is ready, because a message wakes it. Lists show that it sleeps.
    asleep = next((stage for stage in stages if stage.reason == ASLEEP), None)
    return Condition(READY, True, ASLEEP, asleep.message) if asleep else Condition(READY, True, "Ready", "")


def condition_list(
    wanted: Iterable[Condition], *, previous: Sequence[Mapping[str, Any]], generation: int, now: str
) -> list[dict[str, Any]]:
    """Return the conditions as the API stores them. The transition time changes only when a status changes."""
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
