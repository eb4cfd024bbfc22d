"""A budget as the status page shows it."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from fleetwright_agent.turn.cost.budgets import BudgetUsage, BudgetWindow


def budget_report(each: BudgetWindow, *, fits: bool, exhausted: bool) -> dict[str, Any]:
    """Return a budget as the status page shows it.

    Args:
        each: The budget in its current window.
        fits: False if a known call does not fit. The budget then counts as exceeded.
        exhausted: True if no task can begin before the window ends.
    """
    budget = each.budget
    limits = {
        **({"usd": str(budget.usd), "spentUsd": str(round(each.spent.usd, 6))} if budget.usd is not None else {}),
        **({"tokens": budget.tokens, "spentTokens": each.spent.tokens} if budget.tokens is not None else {}),
    }
    exceeded_now = not fits or each.has_used(Decimal(1), BudgetUsage())
    state = {"exceeded": exceeded_now, "exhausted": exhausted, "low": each.warned}
    return {"period": budget.period.value, **limits, **state, "resetsAt": moment(each.ends)}


def moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
