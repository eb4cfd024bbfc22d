"""What the agent may cost."""

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
    """The task ends, and says which budget it was and when there is room."""
    PAUSE = "Pause"
    """The task waits for its caller's word; an agent that calls is rejected."""


class Downgrade(Part):
    """From this part of a budget on, another model at the same address works."""

    at: Fraction = Decimal("0.8")
    model: OtherModel


class Budget(Part):
    """What all model calls of the agent together may cost within a calendar window, in UTC."""

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
