"""When and how a long conversation is shortened towards the model."""

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
    """The first that is reached fires. Fractions are of the window less the output reserve."""

    context_fraction: Fraction = Decimal("0.8")
    tokens: int = Field(default=150_000, gt=0)
    messages: int | None = Field(default=None, gt=1)


class CompactionKeep(Part):
    """The newest part of the conversation that stays as it is: the smaller of the two."""

    messages: int = Field(default=20, gt=0)
    context_fraction: Fraction = Decimal("0.15")


class CompactionPrune(Part):
    """Old, long results of tools are shown as their beginning and end; the whole stays in the archive."""

    context_fraction: Fraction = Decimal("0.6")
    """From this filling on, where it pays for itself; a cold cache or a reached trigger asks for no filling."""
    over_chars: int = Field(default=4000, gt=0)
    head: int = Field(default=1000, ge=0)
    tail: int = Field(default=500, ge=0)
    idle_after_seconds: int = Field(default=300, gt=0)
    """After so long without a call the provider's cache of the prompt is taken for cold."""
    max_payback_calls: int = Field(default=10, gt=0)
    except_tools: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.head + self.tail >= self.over_chars:
            raise ValueError("prune.head and prune.tail together must be below prune.overChars")
        return self


class CompactionSummary(Part):
    """Written by the auxiliary model where the cache is cold, or where that is cheaper than the own on its cache."""

    max_tokens: int = Field(default=4000, gt=0)
    """Of all that stands for the earlier conversation but the pins."""
    timeout_seconds: int = Field(default=60, gt=0)
    instructions: str = ""
    """Appended to the built-in instruction, never instead of it."""


class PinKind(StrEnum):
    POLICY = "Policy"
    """What callers said must always or never be done."""
    SKILLS = "Skills"
    """Skills that were read, from their folder."""
    PLAN = "Plan"
    TODOS = "Todos"
    """The newest call of a tool whose name says plan, or todo."""


class CompactionPin(Part):
    """What is shown to the letter after a compaction, whatever the summary says."""

    kinds: tuple[PinKind, ...] = tuple(PinKind)
    max_tokens: int = Field(default=8000, gt=0)


class CompactionArchive(Part):
    """The messages that a summary stands for."""

    retain_seconds: int = Field(default=168 * 3600, gt=0)
    recall_tool: bool = True
    """Whether the model may search them."""


class CompactionGuard(Part):
    min_gain: Fraction = Decimal("0.2")
    """A compaction that shortens the prompt by less changes nothing."""
    max_failures: int = Field(default=3, gt=0)
    """After so many in a row it is left alone until the caller's next message."""


class Compaction(Part):
    mode: CompactionMode = CompactionMode.ENFORCE
    trigger: CompactionTrigger = CompactionTrigger()
    keep: CompactionKeep = CompactionKeep()
    prune: CompactionPrune = CompactionPrune()
    summary: CompactionSummary = CompactionSummary()
    pin: CompactionPin = CompactionPin()
    archive: CompactionArchive = CompactionArchive()
    guard: CompactionGuard = CompactionGuard()
