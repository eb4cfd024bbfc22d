"""The report that a running agent gives on :7871/status, as the operator uses it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fleetwright_api.activity import Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    unreachable: str = ""
    """The reason why the server could not be reached."""
    tools: int | None = None
    """How many tools the agent may use; None before the MCP handshake."""
    missing: tuple[str, ...] = ()
    """Tools that the spec names and the server does not offer."""
    oversized: tuple[str, ...] = ()
    """Tools that the agent omits because they would take too much of its model's context window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    period: str
    exceeded: bool
    resets_at: str
    usd: str = ""
    """The limit in US dollars; empty if the budget has none."""
    tokens: int = 0
    """The limit in tokens; 0 if the budget has none."""
    exhausted: bool = False
    """True if no task can begin before the reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReport:
    """The outcomes of the last tasks of one skill."""

    skill: str
    """Empty for tasks whose callers named no skill."""
    tasks: int
    succeeded: int
    usd: float | None
    """The cost of these tasks, or None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The last line of the audit trail, and the line after which the running process resumed the trail."""

    lines: int
    hash: str
    process: str
    """A random id for each start of the agent."""
    resumed_lines: int
    resumed_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedModel:
    """A model whose provider answered the last call with 401, 402, 403 or 404."""

    model: str
    reason: str
    """The agent's word, such as `model_unauthorized`."""
    message: str
    """The text of the provider; empty if it gave none."""


class ModelHealth(StrEnum):
    """The share of failed model calls in the last minute. Between the two limits, the last state is kept."""

    FAILING = "failing"
    UNCLEAR = "unclear"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The report of one pod. Missing or invalid fields are empty."""

    pod: str = ""
    revision: str = ""
    card_digest: str = ""
    servers: Mapping[str, ServerReport] = field(default_factory=dict)
    budgets: tuple[BudgetReport, ...] = ()
    failed_plugins: Mapping[str, str] = field(default_factory=dict)
    """By plugin: the reason why it could not be loaded."""
    model: ModelHealth = ModelHealth.HEALTHY
    model_error: str = field(default="", compare=False)
    """The reason of the last failure in the last minute."""
    refused_models: tuple[RefusedModel, ...] = ()
    is_stalled: bool = False
    """True if the event loop of the agent was blocked when the report was made. The agent then answers no request."""
    memory_holder: str = ""
    """The process that still uses the memory volume, while this pod waits for it."""
    running_tasks: int = field(default=0, compare=False)
    spent_usd: float = field(default=0.0, compare=False)
    outcomes: tuple[OutcomeReport, ...] = field(default=(), compare=False)
    audit_process: str = ""
    """The process whose trail `audit` describes. A new process triggers a reconcile."""
    activity: Activity | None = field(default=None, compare=False)
    """Excluded from comparison, because it changes with each task, and such a change must not trigger a reconcile."""
    audit: AuditReport | None = field(default=None, compare=False)
    """Excluded from comparison, because it changes with each tool call, and such a change must not trigger a reconcile.
    """

    @property
    def is_complete(self) -> bool:
        """True if the agent is not stalled, reaches its servers, has their tools, and has loaded its plugins."""
        lacks = any(server.unreachable or server.missing for server in self.servers.values())
        return not (self.is_stalled or lacks or self.failed_plugins)
