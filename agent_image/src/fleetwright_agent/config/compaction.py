"""The configuration of compaction: when and how the model sees a shortened conversation."""

from decimal import Decimal
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from fleetwright_agent.config.base import Fraction, Part


class CompactionMode(StrEnum):
    ENFORCE = "Enforce"
    OBSERVE = "Observe"
    OFF = "Off"


class CompactionTrigger(Part):
    """The first threshold that is reached triggers. Fractions refer to the window minus the output reserve."""

    context_fraction: Fraction = Decimal("0.8")
    tokens: int = Field(default=150_000, gt=0)
    messages: int | None = Field(default=None, gt=1)


class CompactionKeep(Part):
    """The newest part of the conversation, which stays unchanged: the smaller of the two limits."""

    messages: int = Field(default=20, gt=0)
    context_fraction: Fraction = Decimal("0.15")


class CompactionPrune(Part):
    """Truncates old, long tool results to their beginning and end; the archive keeps the whole text."""

    context_fraction: Fraction = Decimal("0.6")
    """Prunes from this fill level on if that saves money; with a cold cache or a reached trigger, at any fill level."""
    over_chars: int = Field(default=4000, gt=0)
    head: int = Field(default=1000, ge=0)
    tail: int = Field(default=500, ge=0)
    idle_after_seconds: int = Field(default=300, gt=0)
    """After so long without a call, the provider's prompt cache counts as cold."""
    max_payback_calls: int = Field(default=10, gt=0)
    except_tools: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.head + self.tail >= self.over_chars:
            raise ValueError("prune.head and prune.tail together must be below prune.overChars")
        return self


class CompactionSummary(Part):
    """Written by the auxiliary model if the cache is cold or if that is cheaper than the main model with its cache."""

    max_tokens: int = Field(default=4000, gt=0)
    """The limit for everything that replaces the earlier conversation, except the pins."""
    timeout_seconds: int = Field(default=60, gt=0)
    instructions: str = ""
    """Appended to the built-in instruction; it does not replace it."""


class PinKind(StrEnum):
    POLICY = "Policy"
    """Standing orders of callers: what must always or never be done."""
    SKILLS = "Skills"
    """The loaded skills, read again from their folder."""
    PLAN = "Plan"
    TODOS = "Todos"
    """The newest call of a tool whose name contains plan or todo."""


class CompactionPin(Part):
    """Content that stays verbatim after a compaction, independent of the summary."""

    kinds: tuple[PinKind, ...] = tuple(PinKind)
    max_tokens: int = Field(default=8000, gt=0)


class CompactionArchive(Part):
    """The messages that a summary replaces."""

    retain_seconds: int = Field(default=168 * 3600, gt=0)
    recall_tool: bool = True
    """Gives the model a tool that searches them."""


class CompactionGuard(Part):
    min_gain: Fraction = Decimal("0.2")
    """A compaction that shortens the prompt by less is discarded."""
    max_failures: int = Field(default=3, gt=0)
    """After so many consecutive failures, compaction is suspended until the caller's next message."""


class Compaction(Part):
    mode: CompactionMode = CompactionMode.ENFORCE
    trigger: CompactionTrigger = CompactionTrigger()
    keep: CompactionKeep = CompactionKeep()
    prune: CompactionPrune = CompactionPrune()
    summary: CompactionSummary = CompactionSummary()
    pin: CompactionPin = CompactionPin()
    archive: CompactionArchive = CompactionArchive()
    guard: CompactionGuard = CompactionGuard()
