"""One word for the state of an agent, and one for its reason, for lists. Pure."""

from collections.abc import Sequence

from fleetwright_operator.status.conditions import (
    ASLEEP,
    BUDGET_EXCEEDED,
    DEGRADED,
    EVENT_LOOP_STALLED,
    MODEL_REFUSED,
    PROGRESS,
    READY,
    WORKSPACE_READY,
    Condition,
)

_STOPPED = frozenset({"Suspended", "Suspending"})


def phase_of(conditions: Sequence[Condition], *, is_serving: bool) -> tuple[str, str]:
    """Return Pending, Running, Degraded, Blocked, Asleep, Suspended or Failed, and the reason of the phase.

    Args:
        conditions: The conditions of the agent.
        is_serving: True if an earlier revision serves although the spec cannot be applied.
    """
    ready = next(condition for condition in conditions if condition.type == READY)
    if ready.status is True:
        return _phase_of_ready(ready, conditions)
    if ready.reason in _STOPPED:
        return "Suspended", ready.reason
    if ready.reason == EVENT_LOOP_STALLED:
        return "Degraded", ready.reason
    if ready.reason in PROGRESS:
        return "Pending", ready.reason
    return ("Blocked" if is_serving else "Failed"), ready.reason


def _phase_of_ready(ready: Condition, conditions: Sequence[Condition]) -> tuple[str, str]:
    if ready.reason == ASLEEP:
        return "Asleep", ready.reason
    if missing := next((condition for condition in conditions if _degrades(condition)), None):
        return "Degraded", missing.reason
    is_over_budget = any(condition.type == BUDGET_EXCEEDED for condition in conditions)
    return "Running", BUDGET_EXCEEDED if is_over_budget else ready.reason


def _degrades(condition: Condition) -> bool:
    """Return whether an agent that is ready works without something that its spec names."""
    if condition.type == WORKSPACE_READY:
        return condition.status is False and condition.reason not in PROGRESS
    return condition.type in {DEGRADED, MODEL_REFUSED}
