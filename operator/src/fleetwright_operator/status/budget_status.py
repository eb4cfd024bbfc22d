"""The budgets of an agent as its status shows them, from the spec and from the agent's report. Pure.

The gateway reads this field, and refuses messages for an agent whose budget is used up. The field changes only when a
budget is reported for the first time, is used up, or has room again.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from fleetwright_api.spec.limits import BudgetSpec
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.status.agent_report import AgentReport, BudgetReport


def budget_status(
    previous: Mapping[str, Any], report: AgentReport | None, budgets: Sequence[BudgetSpec], *, now: int
) -> Mapping[str, Any]:
    """Return the field `budgets` of the status; None removes it.

    A budget without a report keeps its entry until its reset, because a sleeping agent reports nothing. An entry or a
    report with other limits than the spec does not count.

    Args:
        previous: The status so far.
        report: The report of the current pod.
        budgets: The budgets of the spec.
        now: The time in seconds since the epoch.
    """
    reported = {each.period: each for each in report.budgets} if report else {}
    shown = {each.get("period"): each for each in previous.get("budgets", ())}
    entries = [_entry(spec, reported.get(spec.period), shown.get(spec.period), now=now) for spec in budgets]
    return {"budgets": [entry for entry in entries if entry is not None] or None}


def next_reset_after(status: Mapping[str, Any], *, now: int) -> int | None:
    """Return the seconds until the first budget of a status is no longer used up; None if no such time is ahead.

    Times in the past are ignored. A blocked reconcile keeps the field, so a past time would requeue the Agent forever.
    """
    times = [each.get("exhaustedUntil", "") for each in status.get("budgets", ())]
    return min((parse_timestamp(until) - now for until in times if _is_ahead(until, now)), default=None)


def _entry(
    spec: BudgetSpec, report: BudgetReport | None, shown: Mapping[str, Any] | None, *, now: int
) -> Mapping[str, Any] | None:
    usd = {"usd": spec.usd} if spec.usd is not None else {}
    tokens = {"tokens": spec.tokens} if spec.tokens is not None else {}
    limits = {"period": spec.period, **usd, **tokens}
    if report is not None and _is_same(spec, report):
        until = report.resets_at if report.exhausted else ""
    elif shown is not None and {key: value for key, value in shown.items() if key != "exhaustedUntil"} == limits:
        until = shown.get("exhaustedUntil", "")
    else:
        return None
    return {**limits, **({"exhaustedUntil": until} if _is_ahead(until, now) else {})}


def _is_ahead(time: str, now: int) -> bool:
    try:
        return parse_timestamp(time) > now
    except ValueError:
        return False


def _is_same(spec: BudgetSpec, report: BudgetReport) -> bool:
    """Return whether the running agent has the limits of the spec."""
    usd = Decimal(report.usd) if report.usd else None
    return (None if spec.usd is None else Decimal(spec.usd)) == usd and (spec.tokens or 0) == report.tokens
