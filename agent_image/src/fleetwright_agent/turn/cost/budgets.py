"""Budgets of money and tokens, their time windows, and the check whether a call still fits.

A window starts with the hour, the day or the month in UTC. A call fits if its maximum cost, the spent amount and the
reservations of running calls together do not exceed the budget. The functions are pure; `BudgetWindow` is mutable.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from fleetwright_agent.config.budgets import Budget, Period
from fleetwright_agent.config.model import OtherModel


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    usd: Decimal = Decimal(0)
    tokens: int = 0

    def __add__(self, other: "BudgetUsage") -> "BudgetUsage":
        return BudgetUsage(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "BudgetUsage") -> "BudgetUsage":
        return BudgetUsage(self.usd - other.usd, self.tokens - other.tokens)

    def least(self, other: "BudgetUsage") -> "BudgetUsage":
        """Return the smaller of both amounts, separately for money and tokens."""
        return BudgetUsage(min(self.usd, other.usd), min(self.tokens, other.tokens))


def window(period: Period, now: datetime) -> tuple[datetime, datetime]:
    """The start and end of the budget window that contains `now`."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if period is Period.HOUR:
        return hour, hour + timedelta(hours=1)
    day = hour.replace(hour=0)
    if period is Period.DAY:
        return day, day + timedelta(days=1)
    first = day.replace(day=1)
    return first, (first + timedelta(days=32)).replace(day=1)


@dataclass(slots=True)
class BudgetWindow:
    """One budget and its usage in the current window."""

    budget: Budget
    begins: datetime
    ends: datetime
    spent: BudgetUsage = field(default_factory=BudgetUsage)
    warned: bool = False
    opened: bool = False
    """True once `spent` includes the stored costs of the window. Before, it has only charges of this process."""

    def fits(self, more: BudgetUsage) -> bool:
        return _holds(self.budget, self.spent + more)

    def has_used(self, part: Decimal, running: BudgetUsage) -> bool:
        """Return True if at least this fraction of the budget is spent or reserved."""
        whole = self.spent + running
        usd, tokens = self.budget.usd, self.budget.tokens
        return (usd is not None and whole.usd >= part * usd) or (tokens is not None and whole.tokens >= part * tokens)

    @property
    def name(self) -> str:
        """The budget in words, such as `5.00 US dollars a day`."""
        usd, tokens = self.budget.usd, self.budget.tokens
        parts = [f"{usd} US dollars" if usd is not None else "", f"{tokens} tokens" if tokens is not None else ""]
        return f"{' and '.join(part for part in parts if part)} {_EACH[self.budget.period]}"


def _holds(budget: Budget, used: BudgetUsage) -> bool:
    return (budget.usd is None or used.usd <= budget.usd) and (budget.tokens is None or used.tokens <= budget.tokens)


def too_small(budget: Budget, call: BudgetUsage) -> bool:
    """Return True if a call does not even fit into an unused budget."""
    return not _holds(budget, call)


_EACH = {Period.HOUR: "an hour", Period.DAY: "a day", Period.MONTH: "a month"}


def exceeded(windows: Sequence[BudgetWindow], *, running: BudgetUsage, call: BudgetUsage) -> BudgetWindow | None:
    """Return the budget into which a call does not fit; among several, the budget whose window ends last."""
    full = [each for each in windows if not each.fits(running + call)]
    return max(full, key=lambda each: each.ends, default=None)


def cheaper(windows: Sequence[BudgetWindow], *, running: BudgetUsage) -> OtherModel | None:
    """Return the cheaper model for the rest of a window, or None if no budget requires one."""
    found = (each.budget.downgrade for each in windows if _downgraded(each, running))
    return next((downgrade.model for downgrade in found if downgrade), None)


def _downgraded(each: BudgetWindow, running: BudgetUsage) -> bool:
    return each.budget.downgrade is not None and each.has_used(each.budget.downgrade.at, running)
