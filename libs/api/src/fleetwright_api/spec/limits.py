"""The limits of an Agent: for each message, for costs, and for the audit trail. The runtime applies the defaults."""

from dataclasses import dataclass

from fleetwright_api.spec.fields import one_of
from fleetwright_api.spec.model import NamedModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSpec:
    max_turn_seconds: int | None = None
    max_tool_calls: int | None = None
    max_model_calls: int | None = None
    max_turn_tokens: int | None = None
    max_repeated_calls: int | None = None
    max_empty_replies: int | None = None
    max_mended_requests: int | None = None
    max_request_bytes: int | None = None
    max_requests_per_minute: int | None = None
    max_concurrent_turns: int | None = None
    high_priority_callers: tuple[str, ...] = ()
    max_tasks_per_caller: int | None = None
    max_waiting_tasks_per_caller: int | None = None
    max_streams_per_caller: int | None = None
    stall_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DowngradeSpec:
    """Another model at the same address, used once a share of the budget is spent."""

    at: str | None = None
    model: NamedModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSpec:
    """A limit on the cost of all model calls within a calendar period."""

    period: str = one_of("Hour", "Day", "Month")
    usd: str | None = None
    tokens: int | None = None
    warn_at: str | None = None
    on_exceeded: str | None = one_of("Reject", "Pause", default=None)
    downgrade: DowngradeSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSpec:
    mode: str | None = one_of("BestEffort", "Required", "Off", default=None)
    max_bytes: int | None = None
