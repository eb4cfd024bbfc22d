"""The stages of a reconcile, the conditions that derive from them, and the retained parts of a status."""

from functools import partial

import pytest

from fleetwright_api.violation import Violation
from fleetwright_operator.status.conditions import Condition, condition_list, ready
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth

THEN, NOW = "2026-01-01T00:00:00Z", "2026-02-02T00:00:00Z"


def test_transition_time_changes_only_with_the_status():
    first = condition_list([Condition("Ready", False, "A", "a")], previous=[], generation=1, now=THEN)
    same = condition_list([Condition("Ready", False, "B", "b")], previous=first, generation=2, now=NOW)
    assert (same[0]["lastTransitionTime"], same[0]["reason"], same[0]["observedGeneration"]) == (THEN, "B", 2)
    moved = condition_list([Condition("Ready", True, "C")], previous=same, generation=2, now=NOW)
    assert moved[0]["lastTransitionTime"] == NOW


def test_condition_message_is_truncated_to_the_api_limit():
    found = condition_list([Condition("Ready", None, "A", "x" * 9999)], previous=[], generation=1, now=NOW)
    assert (len(found[0]["message"]), found[0]["status"]) == (4096, "Unknown")


@pytest.mark.parametrize(
    ("statuses", "wanted"),
    [
        pytest.param([True, True], (True, "Ready"), id="all true"),
        pytest.param([True, False], (False, "r1"), id="one false"),
        pytest.param([None, False], (None, "r0"), id="the first that is not true says why"),
    ],
)
def test_ready_is_derived_from_all_stages(statuses, wanted):
    stages = [Condition(f"t{n}", status, f"r{n}") for n, status in enumerate(statuses)]
    found = ready(stages)
    assert (found.status, found.reason) == wanted


make_status = partial(custom_status, installation="fleetwright-system/fleetwright")
BAD = Violation("SecretNotFound", "Secret 'key' does not exist")
OUTCOMES = [
    pytest.param(
        StageOutcomes(accepted=[Violation("ModelMissing", "no model")]),
        {
            "Accepted": ("False", "ModelMissing", "no model"),
            "ReferencesResolved": ("False", "Blocked", "blocked by Accepted"),
            "Programmed": ("False", "Blocked", "blocked by Accepted"),
            "Available": ("False", "Blocked", "blocked by Accepted"),
            "Ready": ("False", "ModelMissing", "no model"),
        },
        id="a spec that is not valid",
    ),
    pytest.param(
        StageOutcomes(resolved=[BAD, Violation("PeerNotFound", "no peer")], serving="; revision 1 keeps serving"),
        {
            "Accepted": ("True", "Valid", ""),
            "ReferencesResolved": ("False", "SecretNotFound", "Secret 'key' does not exist; no peer"),
            "Programmed": ("False", "Blocked", "blocked by ReferencesResolved; revision 1 keeps serving"),
            "Available": ("False", "Blocked", "blocked by ReferencesResolved; revision 1 keeps serving"),
            "Ready": ("False", "SecretNotFound", "Secret 'key' does not exist; no peer"),
        },
        id="references that dangle, all named",
    ),
    pytest.param(
        StageOutcomes(resolved=(), programmed=Violation("Conflict", "in the way")),
        {
            "Accepted": ("True", "Valid", ""),
            "ReferencesResolved": ("True", "Resolved", ""),
            "Programmed": ("False", "Conflict", "in the way"),
            "Available": ("False", "Blocked", "blocked by Programmed"),
            "Ready": ("False", "Conflict", "in the way"),
            "Conflict": ("True", "NotOwned", "in the way"),
        },
        id="a foreign object in the way",
    ),
    pytest.param(
        StageOutcomes(
            resolved=(),
            written="revision 2",
            health=WorkloadHealth(True, "RolledOut", ""),
            degraded=Violation("McpServerUnreachable", "tools are down"),
        ),
        {
            "Accepted": ("True", "Valid", ""),
            "ReferencesResolved": ("True", "Resolved", ""),
            "Programmed": ("True", "Written", "revision 2"),
            "Available": ("True", "RolledOut", ""),
            "Ready": ("True", "Ready", ""),
            "Degraded": ("True", "McpServerUnreachable", "tools are down"),
        },
        id="an agent that runs without one of its servers",
    ),
]


@pytest.mark.parametrize(("outcome", "wanted"), OUTCOMES)
def test_stage_outcomes_map_to_conditions(outcome, wanted):
    status = make_status({}, outcome, generation=3, now=NOW, rolls_out=True)
    found = {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}
    assert found == wanted
    assert status["observedGeneration"] == 3


def test_custom_status_keeps_fields_of_skipped_stages():
    """A status keeps fields of stages that did not run and drops removed ones."""
    before = {"url": "http://x", "memory": {"claim": "c"}}
    blocked = make_status(before, StageOutcomes(resolved=[BAD]), generation=1, now=NOW, rolls_out=True)
    assert blocked["url"] == "http://x"
    done = make_status(
        before, StageOutcomes(resolved=(), written="x", facts={"memory": None}), generation=1, now=NOW, rolls_out=True
    )
    assert "memory" not in done


def test_custom_status_is_stable_for_equal_outcomes():
    outcome = StageOutcomes(resolved=(), written="x", health=WorkloadHealth(True, "RolledOut", ""))
    first = make_status({}, outcome, generation=1, now=THEN, rolls_out=True)
    assert make_status(first, outcome, generation=1, now=NOW, rolls_out=True) == first
