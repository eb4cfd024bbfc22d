"""The budgets in an Agent's status: which entries a report sets, keeps and removes."""

import pytest

from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_operator.status.agent_report import AgentReport, BudgetReport
from fleetwright_operator.status.budget_status import budget_status

NOW = 1_767_268_800
"""2026-01-01T12:00:00Z"""
NOON, MIDNIGHT = "2026-01-01T12:00:00Z", "2026-01-02T00:00:00Z"
DAY = BudgetSpec(period="Day", usd="25")
ROOM = {"period": "Day", "usd": "25"}
FULL = {**ROOM, "exhaustedUntil": MIDNIGHT}


def report(**more):
    given = {"period": "Day", "usd": "25", "exceeded": True, "exhausted": True, "resets_at": MIDNIGHT, **more}
    return AgentReport(budgets=(BudgetReport(**given),))


@pytest.mark.parametrize(
    ("shown", "said", "spec", "wanted"),
    [
        pytest.param([], report(), DAY, [FULL], id="used up"),
        pytest.param([FULL], report(exhausted=False), DAY, [ROOM], id="room again"),
        pytest.param([], report(exhausted=False), DAY, [ROOM], id="reported for the first time"),
        pytest.param([], report(usd="25.00"), DAY, [FULL], id="the same limit, written in another way"),
        pytest.param([FULL], None, DAY, [FULL], id="asleep"),
        pytest.param([FULL], AgentReport(), DAY, [FULL], id="a report before the budgets are read"),
        pytest.param([{**FULL, "exhaustedUntil": NOON}], None, DAY, [ROOM], id="asleep, after the reset"),
        pytest.param([], report(resets_at=NOON), DAY, [ROOM], id="a report from before the reset"),
        pytest.param([], report(resets_at=""), DAY, [ROOM], id="a report without a reset"),
        pytest.param([{**FULL, "exhaustedUntil": "soon"}], None, DAY, [ROOM], id="an unusable time"),
        pytest.param([FULL], report(), BudgetSpec(period="Day", usd="50"), None, id="the budget was raised"),
        pytest.param([FULL], report(), BudgetSpec(period="Day", usd="25", tokens=9), None, id="a limit was added"),
        pytest.param([FULL], report(), BudgetSpec(period="Hour", usd="25"), None, id="another period"),
        pytest.param([], None, DAY, None, id="never reported"),
        pytest.param(
            [],
            report(usd="", tokens=9),
            BudgetSpec(period="Day", tokens=9),
            [{"period": "Day", "tokens": 9, "exhaustedUntil": MIDNIGHT}],
            id="tokens",
        ),
    ],
)
def test_budget_status_follows_the_report_of_the_same_limits(shown, said, spec, wanted):
    assert budget_status({"budgets": shown}, said, [spec], now=NOW) == {"budgets": wanted}


def test_budget_status_of_an_agent_without_budgets_is_removed():
    assert budget_status({"budgets": [FULL]}, report(), [], now=NOW) == {"budgets": None}
