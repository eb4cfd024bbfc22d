"""One word for the state of an agent, for lists. It is derived from the conditions alone. Pure."""

from collections.abc import Sequence

from fleetwright_operator.status.conditions import (
    ASLEEP,
    DEGRADED,
    EVENT_LOOP_STALLED,
    PROGRESS,
    READY,
    WORKSPACE_READY,
    Condition,
)

_STOPPED = frozenset({"Suspended", "Suspending"})


def phase_of(conditions: Sequence[Condition], *, is_serving: bool) -> str:
    """Return Pending, Running, Degraded, Blocked, Asleep, Suspended or Failed.

    Args:
        conditions: The conditions of the agent.
        is_serving: True if an earlier revision serves although the spec cannot be applied.
    """
    ready = next(condition for condition in conditions if condition.type == READY)
    if ready.status is True:
        if ready.reason == ASLEEP:
            return "Asleep"
        return "Degraded" if any(_degrades(condition) for condition in conditions) else "Running"
    if ready.reason in _STOPPED:
        return "Suspended"
    if ready.reason == EVENT_LOOP_STALLED:
        return "Degraded"
    if ready.reason in PROGRESS:
        return "Pending"
    return "Blocked" if is_serving else "Failed"


def _degrades(condition: Condition) -> bool:
    """Return whether an agent that is ready works without something that its spec names."""
    if condition.type == WORKSPACE_READY:
        return condition.status is False and condition.reason not in PROGRESS
    return condition.type == DEGRADED
