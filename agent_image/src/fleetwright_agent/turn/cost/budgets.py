"""Budgets of money and tokens: what a call may still cost, and what is said when it may not. Pure but for the sums.

A window begins with the hour, the day or the month, in UTC. A call is let through when what is spent, what runs just
now and the most that this call can cost fit together: side by side, calls cannot overspend.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from fleetwright_agent.config.budgets import Budget, Period
from fleetwright_agent.config.model import OtherModel


@dataclass(frozen=True, slots=True)
class Spent:
    usd: Decimal = Decimal(0)
    tokens: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.usd - other.usd, self.tokens - other.tokens)

    def least(self, other: "Spent") -> "Spent":
        """Return the smaller of both amounts, money and tokens apart."""
        return Spent(min(self.usd, other.usd), min(self.tokens, other.tokens))


def window(period: Period, now: datetime) -> tuple[datetime, datetime]:
    """The beginning and the end of the window that this moment lies in."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if period is Period.HOUR:
        return hour, hour + timedelta(hours=1)
    day = hour.replace(hour=0)
    if period is Period.DAY:
        return day, day + timedelta(days=1)
    first = day.replace(day=1)
    return first, (first + timedelta(days=32)).replace(day=1)


@dataclass(slots=True)
class Window:
    """One budget and what has come of it since its window began."""

    budget: Budget
    begins: datetime
    ends: datetime
    spent: Spent = field(default_factory=Spent)
    warned: bool = False
    refused: bool = False
    """A call did not fit: nearly nothing may be left though not all of it is spent."""

    def fits(self, more: Spent) -> bool:
        return _holds(self.budget, self.spent + more)

    def has_used(self, part: Decimal, running: Spent) -> bool:
        """Whether as much as this part of it is spent, or running."""
        whole = self.spent + running
        usd, tokens = self.budget.usd, self.budget.tokens
        return (usd is not None and whole.usd >= part * usd) or (tokens is not None and whole.tokens >= part * tokens)

    @property
    def name(self) -> str:
        """For people, such as `5.00 US dollars a day`."""
        usd, tokens = self.budget.usd, self.budget.tokens
        parts = [f"{usd} US dollars" if usd is not None else "", f"{tokens} tokens" if tokens is not None else ""]
        return f"{' and '.join(part for part in parts if part)} {_EACH[self.budget.period]}"


def _holds(budget: Budget, used: Spent) -> bool:
    return (budget.usd is None or used.usd <= budget.usd) and (budget.tokens is None or used.tokens <= budget.tokens)


def too_small(budget: Budget, call: Spent) -> bool:
    """Whether a call does not fit in it even where nothing of it is spent."""
    return not _holds(budget, call)


_EACH = {Period.HOUR: "an hour", Period.DAY: "a day", Period.MONTH: "a month"}


def exceeded(windows: Sequence[Window], *, running: Spent, call: Spent) -> Window | None:
    """The budget that a call does not fit in; of several the one that is full for longest."""
    full = [each for each in windows if not each.fits(running + call)]
    return max(full, key=lambda each: each.ends, default=None)


def cheaper(windows: Sequence[Window], *, running: Spent) -> OtherModel | None:
    """The model that takes over for the rest of a window."""
    found = (each.budget.downgrade for each in windows if _downgraded(each, running))
    return next((downgrade.model for downgrade in found if downgrade), None)


def _downgraded(each: Window, running: Spent) -> bool:
    return each.budget.downgrade is not None and each.has_used(each.budget.downgrade.at, running)
