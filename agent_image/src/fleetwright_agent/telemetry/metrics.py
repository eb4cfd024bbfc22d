"""All Prometheus metrics of the runtime. Names and labels are an API: dashboards and alerts depend on them.

No label contains the id of a task or a conversation, because their number is unbounded. The number of values of the
label `caller` is limited; all further callers share one value.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import permutations
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric

from fleetwright_agent.telemetry.failure_reasons import (
    COMPACTION_FAILURE_REASONS,
    FALLBACK_REASONS,
    MODEL_FAILURE_REASONS,
    ModelFailureReason,
)
from fleetwright_agent.telemetry.model_call_window import ModelCallWindow

Counts = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
"""The values of counters, by the name of the counter without `_total` and by the names and values of its labels."""
CALLER: Final = "caller"
"""The label for the caller of an agent."""
OTHER_CALLERS: Final = "(others)"
"""The value of this label for all callers beyond the limit of series."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_TOKENS = (1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8)
_FILL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_ENDED: Final = ("completed", "failed", "canceled", "rejected")
"""The outcomes of tasks that have ended. Other outcomes are pauses."""


class _Series:
    """Creates the metrics of one registry, with the project's prefix."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.counters: dict[str, Counter] = {}
        """By the name without `_total`."""

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(f"fleetwright_{name}", text, labels, registry=self._registry)
        self.counters[f"fleetwright_{name.removesuffix('_total')}"] = counter
        return counter

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"fleetwright_{name}", text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"fleetwright_{name}", text, labels, registry=self._registry, buckets=buckets)


class Metrics:
    """The metrics of one registry: one per process in production, one per test in tests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.model_health = ModelCallWindow()
        make = _Series(registry)
        self._serving(make)
        self._model(make)
        self._memory(make)
        self._tools(make)
        self._compaction(make)
        self._counters = make.counters

    def _serving(self, make: _Series) -> None:
        self.agent_info = make.gauge("agent_info", "The running revision; always 1.", "agent", "namespace", "revision")
        self.tasks = make.gauge("tasks", "Running and waiting tasks, by state.", "state")
        self.turns = make.gauge("turns", "Turns of tasks that run, and that wait to run.", "phase")
        self.tasks_lost = make.counter("tasks_lost_total", "Tasks in the log that could not be read.")
        self.upkeep_failures = make.counter("upkeep_failures_total", "Failed maintenance steps.")
        self.tasks_ended = make.counter("tasks_ended_total", "Tasks that have ended, by outcome.", "outcome")
        self.task_seconds = make.histogram(
            "task_seconds", "From accepting a message to the end or pause of its task.", "outcome"
        )
        self.hitl_wait = make.histogram(
            "hitl_wait_seconds", "From a question to a person until the reply.", "kind", buckets=_WAITS
        )
        self.auth_failures = make.counter("auth_failures_total", "Requests rejected for their credential.", "reason")
        self.push_deliveries = make.counter(
            "push_deliveries_total", "Attempts to deliver push notifications, by outcome.", "outcome"
        )
        self.loop_stalls = make.counter("loop_stalls_total", "Times that the event loop was blocked for seconds.")
        self.trace_failures = make.counter("trace_failures_total", "Batches of spans that could not be sent.")
        self.audit_failures = make.counter(
            "audit_failures_total", "Lines of the audit trail that could not be written."
        )

    def _model(self, make: _Series) -> None:
        self.llm_calls = make.counter("llm_calls_total", "Model calls.", "model", "outcome")
        self.llm_tokens = make.counter("llm_tokens_total", "Tokens as counted by the provider.", "model", "direction")
        self.llm_cache_tokens = make.counter(
            "llm_cache_tokens_total", "Input tokens served from cache.", "model", "kind"
        )
        self.llm_cost_usd = make.counter("llm_cost_usd_total", "US dollars by the declared price.", "model")
        self.caller_cost_usd = make.counter("caller_cost_usd_total", "US dollars, by caller.", CALLER)
        self.budget_remaining_usd = make.gauge(
            "budget_remaining_usd", "US dollars left in the current window.", "period"
        )
        self.budget_remaining_tokens = make.gauge(
            "budget_remaining_tokens", "Tokens left in the current window.", "period"
        )
        self.budget_rejections = make.counter("budget_rejections_total", "Calls that a budget rejected.", "period")
        self.llm_estimated_calls = make.counter(
            "llm_estimated_calls_total",
            "Truncated or interrupted calls whose tokens were estimated.",
            "model",
        )
        self.llm_cut_answers = make.counter("llm_cut_answers_total", "Answers truncated at the output limit.", "model")
        self.llm_unpriced_calls = make.counter("llm_unpriced_calls_total", "Calls with an unknown cost.", "model")
        self.model_fallbacks = make.counter(
            "model_fallbacks_total", "Calls that a fallback model answered.", "from", "to", "reason"
        )
        self.empty_replies = make.counter("llm_empty_replies_total", "Empty replies to tool results.")
        self.mended_requests = make.counter(
            "llm_mended_requests_total",
            "Requests that a provider rejected and that were repaired.",
            "outcome",
        )
        self.repeated_calls = make.counter(
            "repeated_tool_calls_total", "Turns that repeated a tool call with the same result.", "outcome"
        )
        self.llm_latency = make.histogram("llm_latency_seconds", "Duration of a model call.", "model")
        self.llm_first_token = make.histogram(
            "llm_first_token_seconds", "Time to the first token of a model call.", "model"
        )

    def _memory(self, make: _Series) -> None:
        self.memory_bytes = make.gauge("memory_bytes", "Bytes in the memory volume, by purpose.", "part")
        self.memory_limit_bytes = make.gauge("memory_limit_bytes", "The size limit of the memory in bytes.")
        self.memory_free_bytes = make.gauge("memory_free_bytes", "Free bytes on the memory volume.")
        self.memory_full = make.gauge("memory_full", "1 while new tasks are rejected because the memory is full.")
        self.conversations_forgotten = make.counter(
            "conversations_forgotten_total", "Deleted conversations, by reason.", "reason"
        )
        self.sessions_lost = make.counter(
            "sessions_lost_total", "Session summaries that could not be written; the answers were sent."
        )
        self.knowledge_ingested = make.counter(
            "knowledge_ingested_total",
            "Tool results to be stored as facts, by outcome.",
            "outcome",
        )
        self.skills_learned = make.counter("skills_learned_total", "Skills that were learned.", "outcome")
        self.skills_recalled = make.counter("skills_recalled_total", "Learned skills that a model was shown.")
        self.skills_curated = make.counter(
            "skills_curated_total", "Learned skills that were removed, by outcome.", "outcome"
        )

    def _tools(self, make: _Series) -> None:
        self.tool_calls = make.counter("tool_calls_total", "Tool calls.", "tool", "outcome")
        self.tool_latency = make.histogram("tool_latency_seconds", "Duration of a tool call.", "tool")
        self.plugin_loaded = make.gauge("plugin_loaded", "1 if the plugin is loaded, 0 if it failed to load.", "plugin")
        self.tool_schemas_withheld = make.counter(
            "tool_schemas_withheld_total", "Tool declarations left out of model calls."
        )
        self.sub_agent_tasks = make.counter(
            "sub_agent_tasks_total", "Finished tasks of sub-agents.", "sub_agent", "outcome"
        )
        self.mcp_breaker_open = make.gauge(
            "mcp_breaker_open", "1 while calls of an unresponsive server are rejected.", "server"
        )

    def _compaction(self, make: _Series) -> None:
        self.compactions = make.counter(
            "compactions_total", "Attempted context compactions.", "trigger", "method", "outcome"
        )
        self.compaction_tokens = make.counter("compaction_tokens_total", "Estimated tokens before and after.", "phase")
        self.compaction_cost_usd = make.counter("compaction_cost_usd_total", "US dollars spent on summaries.")
        self.compaction_llm_tokens = make.counter(
            "compaction_llm_tokens_total", "Tokens of summary calls.", "direction", "cached"
        )
        self.compaction_seconds = make.histogram(
            "compaction_seconds", "Duration of a compaction, including the summary."
        )
        self.compaction_failures = make.counter(
            "compaction_failures_total", "Compactions that changed nothing.", "reason"
        )
        self.overflow_recoveries = make.counter(
            "overflow_recoveries_total", "Compactions after the provider rejected the prompt's size.", "outcome"
        )
        self.compaction_cache_rewrite_tokens = make.counter(
            "compaction_cache_rewrite_tokens_total",
            "Tokens that a provider processes again because the prompt changed.",
        )
        self.compaction_breaker_open = make.gauge(
            "compaction_breaker_open", "Conversations whose compaction waits for the caller's next message."
        )
        self.compaction_pins_missing = make.counter(
            "compaction_pins_missing_total",
            "Pins that could not be shown: their source is missing, or the limit is reached.",
        )
        self.refetch_after_compaction = make.counter(
            "refetch_after_compaction_total", "Tool calls that repeat one whose result was archived.", "tool"
        )
        self.prompt_tokens_since_compaction = make.histogram(
            "prompt_tokens_since_compaction", "Prompt tokens sent between two summaries.", buckets=_TOKENS
        )
        self.context_fill = make.histogram(
            "context_fill_ratio", "Share of the context window that a model call used.", buckets=_FILL
        )

    def declare(
        self, models: Iterable[str], *, lines: Iterable[Sequence[str]] = (), periods: Iterable[str] = ()
    ) -> None:
        """Start the counters at zero, because `increase()` does not see the first event of a new series.

        Args: `lines` holds the fallback orders; models in one order may replace each other. `periods` holds the periods
        of the budgets.
        """
        for counter, values in (
            (self.tasks_ended, _ENDED),
            (self.push_deliveries, ("delivered", "retried", "dead", "dropped")),
            (self.conversations_forgotten, ("idle", "count", "room")),
            (self.skills_learned, ("new", "again")),
            (self.skills_curated, ("merged", "pruned")),
            (self.repeated_calls, ("nudged", "ended")),
            (self.compaction_failures, COMPACTION_FAILURE_REASONS),
            (self.budget_rejections, periods),
        ):
            for value in values:
                counter.labels(value)
        for outcome in ("completed", "failed"):
            self.task_seconds.labels(outcome)
        for model in models:
            self._declare_model(model)
        for gone, comes in {pair for line in lines for pair in permutations(line, 2)}:
            for reason in FALLBACK_REASONS:
                self.model_fallbacks.labels(gone, comes, reason)

    def count_model_call(
        self, model: str, outcome: ModelFailureReason | Literal["ok"], *, is_outage: bool = False
    ) -> None:
        """Count a model call by its outcome. Args: `is_outage` is True if the provider failed."""
        self.llm_calls.labels(model, outcome).inc()
        self.model_health.note(error=outcome if is_outage else "")
        if outcome == "ok":
            self.model_health.note_success(model)

    def raise_to(self, counts: Counts) -> None:
        """Raise counters to these values. Larger values stay. Counters that no longer exist are left out."""
        current = counts_of(self.registry.collect())
        for (name, labels), value in counts.items():
            counter = self._counters.get(name)
            missing = value - current.get((name, labels), 0)
            if counter is None or missing <= 0:
                continue
            try:
                (counter.labels(**dict(labels)) if labels else counter).inc(missing)
            except ValueError:
                continue  # An earlier version of the agent had other labels.

    def spent_usd(self) -> float:
        """Return the cost of all calls, rounded to a millionth of a dollar, as far as their prices are known."""
        samples = [each for family in self.llm_cost_usd.collect() for each in family.samples]
        return round(sum(each.value for each in samples if each.name.endswith("_total")), 6)

    def observe_task(self, outcome: str, seconds: float) -> None:
        """Record that a task has ended or paused after this time.

        Ended tasks also have a counter, because only counters continue in the next pod. The histogram of an agent that
        wakes for one task contains this task from its first scrape, so `rate()` and `increase()` of it are 0.
        """
        self.task_seconds.labels(outcome).observe(seconds)
        if outcome in _ENDED:
            self.tasks_ended.labels(outcome).inc()

    def _declare_model(self, model: str) -> None:
        for outcome in ("ok", *MODEL_FAILURE_REASONS):
            self.llm_calls.labels(model, outcome)
        self.llm_cost_usd.labels(model)
        self.llm_unpriced_calls.labels(model)
        for direction in ("input", "output"):
            self.llm_tokens.labels(model, direction)


def counts_of(families: Iterable[Metric]) -> Counts:
    """Return the values of all counters among these metrics."""
    samples = [(family.name, each) for family in families if family.type == "counter" for each in family.samples]
    # The samples with the suffix `_created` are times.
    return {
        (name, tuple(sorted(each.labels.items()))): each.value for name, each in samples if each.name.endswith("_total")
    }
