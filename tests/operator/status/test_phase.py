"""The phase of an agent and its reason, as lists show them."""

import pytest

from fleetwright_operator.status.conditions import Condition
from fleetwright_operator.status.phase import phase_of

READY = Condition("Ready", True, "Ready")
BUDGET = Condition("BudgetExceeded", True, "UsedUp")
SERVERS = Condition("Degraded", True, "McpServerUnreachable")
CLONING = Condition("WorkspaceReady", False, "Cloning")
NO_WORKSPACE = Condition("WorkspaceReady", False, "ImagePull")


def unready(reason: str) -> Condition:
    return Condition("Ready", False, reason)


@pytest.mark.parametrize(
    ("conditions", "is_serving", "phase"),
    [
        ([READY], False, ("Running", "Ready")),
        ([READY, BUDGET], False, ("Running", "BudgetExceeded")),
        ([READY, SERVERS, BUDGET], False, ("Degraded", "McpServerUnreachable")),
        ([READY, Condition("ModelRefused", True, "KeyRefused")], False, ("Degraded", "KeyRefused")),
        ([READY, NO_WORKSPACE], False, ("Degraded", "ImagePull")),
        ([READY, CLONING], False, ("Running", "Ready")),
        ([Condition("Ready", True, "Asleep"), SERVERS], False, ("Asleep", "Asleep")),
        ([unready("Suspending")], True, ("Suspended", "Suspending")),
        ([unready("EventLoopStalled")], False, ("Degraded", "EventLoopStalled")),
        ([unready("RollingOut")], False, ("Pending", "RollingOut")),
        ([unready("Preflight")], True, ("Pending", "Preflight")),
        ([unready("RolloutPaused")], True, ("Blocked", "RolloutPaused")),
        ([unready("SecretNotFound")], True, ("Blocked", "SecretNotFound")),
        ([unready("SecretNotFound")], False, ("Failed", "SecretNotFound")),
    ],
)
def test_phase_of_has_the_reason_of_what_decides_it(
    conditions: list[Condition], is_serving: bool, phase: tuple[str, str]
) -> None:
    assert phase_of(conditions, is_serving=is_serving) == phase
