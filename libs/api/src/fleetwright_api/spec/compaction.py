"""The rules for shortening long conversations. The runtime applies the defaults."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import one_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSpec:
    context_fraction: str | None = None
    tokens: int | None = None
    messages: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepSpec:
    messages: int | None = None
    context_fraction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneSpec:
    context_fraction: str | None = None
    over_chars: int | None = None
    head: int | None = None
    tail: int | None = None
    idle_after: str | None = None
    max_payback_calls: int | None = None
    except_tools: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySpec:
    max_tokens: int | None = None
    timeout: str | None = None
    instructions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinSpec:
    kinds: tuple[str, ...] | None = one_of("Policy", "Skills", "Plan", "Todos", default=None)
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSpec:
    retain: str | None = None
    recall_tool: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSpec:
    min_gain: str | None = None
    max_failures: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSpec:
    mode: str | None = one_of("Enforce", "Observe", "Off", default=None)
    trigger: TriggerSpec | None = None
    keep: KeepSpec | None = None
    prune: PruneSpec | None = None
    summary: SummarySpec | None = None
    pin: PinSpec | None = None
    archive: ArchiveSpec | None = None
    guard: GuardSpec | None = None
