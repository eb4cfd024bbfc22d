"""The counts of model calls of the last minute, which the agent reports to the operator."""

import pytest

from fleetwright_agent.telemetry.model_call_window import ModelCallWindow
from fleetwright_agent.turn.providers.failures import ModelFailure


def test_model_health_counts_the_calls_of_the_last_minute():
    now = 1000.0
    health = ModelCallWindow(lambda: now)
    assert health.report() == {"seconds": 60, "calls": 0, "errors": 0}
    for error in ("", "model_timeout", "", "model_unreachable"):
        health.note(error=error)
        now += 20
    assert health.report() == {"seconds": 60, "calls": 2, "errors": 1, "lastError": "model_unreachable"}
    now += 60
    assert health.report() == {"seconds": 60, "calls": 0, "errors": 0}


def test_model_health_forgets_a_second_that_the_ring_reuses():
    now = 5.0
    health = ModelCallWindow(lambda: now)
    health.note(error="model_error")
    now += 60
    health.note()
    assert health.report() == {"seconds": 60, "calls": 1, "errors": 0}


def test_model_health_keeps_a_refusal_until_a_call_to_the_model_succeeds():
    health = ModelCallWindow(lambda: 5.0)
    for message in ("no such key", "wrong key"):
        health.note_refusal("large", "model_unauthorized", message)
    health.note_refusal("small", "model_unpaid", "no credit")
    health.note_success("other")
    large = {"model": "large", "reason": "model_unauthorized", "message": "wrong key"}
    small = {"model": "small", "reason": "model_unpaid", "message": "no credit"}
    assert health.report()["refused"] == [large, small]
    health.note_success("large")
    assert health.report()["refused"] == [small]


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        *((word, True) for word in ("model_unauthorized", "model_unpaid", "model_forbidden", "model_not_found")),
        *((word, False) for word in ("model_rate_limited", "model_error", "model_refused_request")),
    ],
)
def test_access_errors_are_those_that_only_a_person_can_end(reason, wanted):
    assert ModelFailure(reason, "").is_access_error is wanted


@pytest.mark.parametrize(
    ("failure", "wanted"),
    [
        pytest.param(ModelFailure("model_error", "", transient=True), True, id="a status of 500 or more"),
        pytest.param(ModelFailure("model_error", ""), False, id="another status below 500"),
        pytest.param(ModelFailure("model_timeout", "", transient=True), True, id="a timeout"),
        pytest.param(ModelFailure("model_unreachable", "", transient=True), True, id="no connection"),
        pytest.param(ModelFailure("model_rate_limited", "", transient=True), False, id="a rate limit"),
        pytest.param(ModelFailure("model_unauthorized", ""), False, id="a refused key"),
    ],
)
def test_failure_of_the_provider_counts_as_an_outage(failure, wanted):
    assert failure.is_outage is wanted
