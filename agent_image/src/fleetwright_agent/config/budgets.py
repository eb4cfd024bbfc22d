"""The configuration of budgets."""

from decimal import Decimal
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from fleetwright_agent.config.base import Fraction, Part
from fleetwright_agent.config.model import OtherModel


class Period(StrEnum):
    HOUR = "Hour"
    DAY = "Day"
    MONTH = "Month"


class Exceeded(StrEnum):
    REJECT = "Reject"
    """The task ends; its message names the budget and the start of the next window."""
    PAUSE = "Pause"
    """The task waits for its caller's confirmation; a caller that is an agent is rejected."""


class Downgrade(Part):
    """The model at the same endpoint that is used once this fraction of a budget is spent."""

    at: Fraction = Decimal("0.8")
    model: OtherModel


class Budget(Part):
    """The limit for all model calls of the agent within a calendar window, in UTC."""

    period: Period
    usd: Decimal | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    warn_at: Fraction = Decimal("0.8")
    downgrade: Downgrade | None = None
    on_exceeded: Exceeded = Exceeded.REJECT

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.usd is None and self.tokens is None:
            raise ValueError("a budget needs usd or tokens")
        return self
