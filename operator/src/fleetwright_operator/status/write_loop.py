"""The condition `WriteLoop`: which writes of the operator repeat although nothing has changed. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api.violation import Violation
from fleetwright_kube.write_guard import REFILL_SECONDS, Write
from fleetwright_operator.status.conditions import WRITE_LOOP, Condition, condition_list

_SHOWN = 5


def write_loop(delayed: Sequence[Write]) -> Violation | None:
    """Return the problem that names the delayed writes; None if there is none."""
    if not delayed:
        return None
    shown = ", ".join(map(str, delayed[:_SHOWN])) + (f" and {more} more" if (more := len(delayed) - _SHOWN) > 0 else "")
    return Violation(
        "Repeated",
        f"the operator repeats these writes although nothing has changed, and now sends each of them once in "
        f"{REFILL_SECONDS:.0f} seconds: {shown}. An admission webhook may change what the operator writes; otherwise "
        "report a defect of the operator",
    )


def add_write_loop(status: Mapping[str, Any], delayed: Sequence[Write], *, generation: int, now: str) -> dict[str, Any]:
    """Return the status with the condition, for a reconcile that a delayed write has ended. All else is kept."""
    problem = write_loop(delayed)
    kept = [condition for condition in status.get("conditions", ()) if condition["type"] != WRITE_LOOP]
    if problem is None:
        return {**status, "conditions": kept}
    added = condition_list(
        [Condition(WRITE_LOOP, True, problem.reason, problem.message)],
        previous=status.get("conditions", ()),
        generation=generation,
        now=now,
    )
    return {**status, "conditions": [*kept, *added]}
