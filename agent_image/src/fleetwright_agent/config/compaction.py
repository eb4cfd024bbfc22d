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
    """Thresholds of the prompt's size. A compaction starts when the first of them is reached.

    Fractions refer to the context window minus the tokens that are reserved for the output.
    """

    context_fraction: Fraction = Decimal("0.8")
    tokens: int = Field(default=150_000, gt=0)
    messages: int | None = Field(default=None, gt=1)


class CompactionKeep(Part):
    """The newest part of the conversation, which stays unchanged. The smaller of the two limits applies."""

    messages: int = Field(default=20, gt=0)
    context_fraction: Fraction = Decimal("0.15")


class CompactionPrune(Part):
    """Truncates old, long tool results to their beginning and end; the archive keeps the whole text."""

    context_fraction: Fraction = Decimal("0.6")
    """From this fill level on, tool results are pruned if that saves money.

    If the prompt cache is cold or a trigger is reached, tool results are pruned at any fill level.
    """
    over_chars: int = Field(default=4000, gt=0)
    head: int = Field(default=1000, ge=0)
    tail: int = Field(default=500, ge=0)
    idle_after_seconds: int = Field(default=300, gt=0)
    """After this time without a model call, the provider's prompt cache is assumed to be cold."""
    max_payback_calls: int = Field(default=10, gt=0)
    except_tools: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _shorter(self) -> Self:
        if self.head + self.tail >= self.over_chars:
            raise ValueError("prune.head and prune.tail together must be below prune.overChars")
        return self


class CompactionSummary(Part):
    """The summary that replaces earlier messages.

    The auxiliary model writes it if the prompt cache is cold, or if that costs less than the main model with its cache.
    """

    max_tokens: int = Field(default=4000, gt=0)
    """The token limit for the text that replaces the earlier conversation, without the pins."""
    timeout_seconds: int = Field(default=60, gt=0)
    instructions: str = ""
    """Text that is appended to the built-in instruction."""


class PinKind(StrEnum):
    POLICY = "Policy"
    """Standing instructions of callers, which say what the agent must always or never do."""
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
    """The archive of the messages that a summary has replaced."""

    retain_seconds: int = Field(default=168 * 3600, gt=0)
    recall_tool: bool = True
    """Gives the model a tool that searches the archive."""


class CompactionGuard(Part):
    min_gain: Fraction = Decimal("0.2")
    """A compaction that shortens the prompt by less than this fraction is discarded."""
    max_failures: int = Field(default=3, gt=0)
    """After this many consecutive failures, compaction is suspended until the caller's next message."""


class Compaction(Part):
    mode: CompactionMode = CompactionMode.ENFORCE
    trigger: CompactionTrigger = CompactionTrigger()
    keep: CompactionKeep = CompactionKeep()
    prune: CompactionPrune = CompactionPrune()
    summary: CompactionSummary = CompactionSummary()
    pin: CompactionPin = CompactionPin()
    archive: CompactionArchive = CompactionArchive()
    guard: CompactionGuard = CompactionGuard()
