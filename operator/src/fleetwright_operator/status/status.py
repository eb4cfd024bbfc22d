"""The status of each kind, from what this reconcile observed and did. Pure. Previous conditions do not influence the
result.

Fields that a blocked reconcile did not reach keep their values, because they still describe what runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api.condition_reasons import SuccessReason
from fleetwright_api.violation import Violation
from fleetwright_operator.status.conditions import (
    ACCEPTED,
    AUDIT_TRAIL_CUT,
    AVAILABLE,
    BUDGET_EXCEEDED,
    CARD_DRIFT,
    CONFLICT,
    DEGRADED,
    FLEET_INCOMPLETE,
    MODEL_ASSUMED,
    MODEL_REFUSED,
    MODEL_UNPRICED,
    PROGRAMMED,
    RESOLVED,
    STORAGE_DIFFERS,
    WORKSPACE_READY,
    WRITE_LOOP,
    Condition,
    blocked,
    condition_list,
    ready,
)
from fleetwright_operator.status.phase import phase_of
from fleetwright_operator.status.workload_health import WorkloadHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcomes:
    """The results of the stages of one reconcile. A stage that was not reached is None."""

    accepted: Sequence[Violation] = ()
    resolved: Sequence[Violation] | None = None
    programmed: Violation | None = None
    """The error at which writing stopped."""
    written: str = ""
    """A summary of the written children; empty if writing was not attempted or was stopped."""
    health: WorkloadHealth | None = None
    degraded: Violation | None = None
    refused: Violation | None = None
    """Why the provider refused the last call to a model."""
    drift: Violation | None = None
    workspace: WorkloadHealth | None = None
    """The state of the agent's workspace; None if it has none, or if it was not written."""
    fleet: Violation | None = None
    over_budget: Violation | None = None
    unpriced: Violation | None = None
    audit_cut: Violation | None = None
    write_loop: Violation | None = None
    storage: Violation | None = None
    """How the volume claims differ from the spec."""
    assumed: Violation | None = None
    """The assumptions about the models."""
    not_reported: bool = False
    """True if the running agent was not read yet. Its previous conditions are then kept."""
    serving: str = ""
    """A text that names the revision which keeps serving while something is blocked."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The other fields of the status; None removes a field."""


def custom_status(
    previous: Mapping[str, Any],
    outcome: StageOutcomes,
    *,
    generation: int,
    now: str,
    rolls_out: bool,
    installation: str,
    has_phase: bool = False,
) -> dict[str, Any]:
    """Return the whole status.

    Args:
        previous: The status before this reconcile.
        outcome: The results of the stages.
        generation: The generation of the object that this reconcile has observed.
        now: The time as the API formats it.
        rolls_out: False for kinds without pods, which have no condition `Available`.
        installation: The id of the installation, which thereby manages the object.
        has_phase: True for kinds whose lists show one word for the state.
    """
    stages = [_accepted(outcome), _resolved(outcome), _programmed(outcome)]
    if rolls_out:
        stages.append(_available(outcome))
    heard = _kept(previous) if outcome.not_reported else _heard(outcome)
    abnormal = [*_workspace(outcome), *_conflict(outcome), *_unsaid(outcome), *heard]
    kept = {key: value for key, value in previous.items() if key not in {"conditions", "observedGeneration"}}
    phase, reason = phase_of([*stages, ready(stages), *abnormal], is_serving=bool(outcome.serving))
    summary = {"phase": phase, "reason": reason} if has_phase else {}
    facts = {key: value for key, value in {**kept, **outcome.facts, **summary}.items() if value is not None}
    conditions = condition_list(
        [*stages, ready(stages), *abnormal],
        previous=previous.get("conditions", ()),
        generation=generation,
        now=now,
    )
    return {**facts, "installation": installation, "observedGeneration": generation, "conditions": conditions}


def _accepted(outcome: StageOutcomes) -> Condition:
    return _from_violations(ACCEPTED, outcome.accepted, good="Valid")


def _resolved(outcome: StageOutcomes) -> Condition:
    if outcome.resolved is None:
        return blocked(RESOLVED, ACCEPTED, note=outcome.serving)
    return _from_violations(RESOLVED, outcome.resolved, good="Resolved")


def _programmed(outcome: StageOutcomes) -> Condition:
    if outcome.programmed is not None:
        return Condition(PROGRAMMED, False, outcome.programmed.reason, outcome.programmed.message)
    if not outcome.written:
        return blocked(PROGRAMMED, RESOLVED if outcome.resolved is not None else ACCEPTED, note=outcome.serving)
    return Condition(PROGRAMMED, True, "Written", outcome.written)


def _available(outcome: StageOutcomes) -> Condition:
    if outcome.health is None:
        by = PROGRAMMED if outcome.programmed else RESOLVED if outcome.resolved is not None else ACCEPTED
        return blocked(AVAILABLE, by, note=outcome.serving)
    return Condition(AVAILABLE, outcome.health.status, outcome.health.reason, outcome.health.message)


def _workspace(outcome: StageOutcomes) -> list[Condition]:
    health = outcome.workspace
    return [Condition(WORKSPACE_READY, health.status, health.reason, health.message)] if health else []


def _conflict(outcome: StageOutcomes) -> list[Condition]:
    stopped = outcome.programmed
    return [Condition(CONFLICT, True, "NotOwned", stopped.message)] if stopped and stopped.reason == CONFLICT else []


def _unsaid(outcome: StageOutcomes) -> list[Condition]:
    """Return the abnormal conditions that do not depend on the agent's report."""
    found = {
        MODEL_UNPRICED: outcome.unpriced,
        MODEL_ASSUMED: outcome.assumed,
        AUDIT_TRAIL_CUT: outcome.audit_cut,
        FLEET_INCOMPLETE: outcome.fleet,
        STORAGE_DIFFERS: outcome.storage,
        WRITE_LOOP: outcome.write_loop,
    }
    return [Condition(kind, True, each.reason, each.message) for kind, each in found.items() if each is not None]


def _heard(outcome: StageOutcomes) -> list[Condition]:
    """Return the abnormal conditions from the agent's report. Each is present only while it is true."""
    found = {
        DEGRADED: outcome.degraded,
        MODEL_REFUSED: outcome.refused,
        CARD_DRIFT: outcome.drift,
        BUDGET_EXCEEDED: outcome.over_budget,
    }
    return [Condition(kind, True, each.reason, each.message) for kind, each in found.items() if each is not None]


def _kept(previous: Mapping[str, Any]) -> list[Condition]:
    heard = {DEGRADED, MODEL_REFUSED, CARD_DRIFT, BUDGET_EXCEEDED}
    said = [condition for condition in previous.get("conditions", ()) if condition["type"] in heard]
    return [Condition(old["type"], True, old["reason"], old["message"]) for old in said]


def _from_violations(kind: str, found: Sequence[Violation], *, good: SuccessReason) -> Condition:
    if not found:
        return Condition(kind, True, good, "")
    return Condition(kind, False, found[0].reason, "; ".join(violation.message for violation in found))
