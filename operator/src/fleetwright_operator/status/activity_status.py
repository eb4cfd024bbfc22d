"""The activity of an agent as its status shows it. Pure.

The values are rounded, and the operator refreshes them at most every ten minutes, so that busy agents cause few writes
and idle agents cause none.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.status.agent_report import AgentReport, OutcomeReport

REFRESH_SECONDS: Final = 600
_LEAST_USD: Final = 0.000001
_STEPS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)


def activity_status(
    report: AgentReport | None, previous: Mapping[str, Any], *, created: str, is_asleep: bool = False
) -> Mapping[str, Any]:
    """Return the field `activity` of the status, or nothing if the agent has not reported any.

    Args:
        report: The last report of the agent.
        previous: The field so far; empty if there is none.
        created: When the Agent was created. The rounded time of the last activity is not before it.
        is_asleep: True if the agent sleeps, so that this report is its last one.
    """
    if report is None or report.activity is None:
        return {}
    active = report.activity.last_active
    last_active = max(format_timestamp(active - active % REFRESH_SECONDS), created)
    outcomes = [_outcome(each) for each in report.outcomes]
    # Outcomes are exact counts, which every task changes. They are refreshed with the time, and when an agent is idle.
    is_idle = is_asleep or report.activity.read_at - active >= REFRESH_SECONDS
    if previous.get("lastActive") == last_active and not is_idle:
        outcomes = previous.get("outcomes", outcomes)
    return {
        "activity": {
            "runningTasks": max(step for step in _STEPS if step <= report.running_tasks),
            "lastActive": last_active,
            # Zero would look like a cost, but most often none is known yet.
            **({"spentUSD": _rounded(report.spent_usd)} if report.spent_usd else {}),
            **({"outcomes": outcomes} if outcomes else {}),
        }
    }


def _outcome(outcome: OutcomeReport) -> Mapping[str, Any]:
    return {
        **({"skill": outcome.skill} if outcome.skill else {}),
        "tasks": outcome.tasks,
        "succeeded": outcome.succeeded,
        **({} if outcome.usd is None else {"costUSD": _rounded(outcome.usd)}),
    }


def _rounded(dollars: float) -> str:
    """Return the amount with two significant digits, such as 0.00041, 0.25 or 1300. Less than a millionth is one."""
    shown = max(dollars, _LEAST_USD) if dollars else 0.0
    return f"{Decimal(f'{shown:.2g}'):f}"
