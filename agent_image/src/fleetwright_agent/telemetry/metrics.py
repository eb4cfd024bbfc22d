"""Every Prometheus name of the runtime. Names and labels are an API: dashboards and alerts depend on them.

No label ever holds a task or a conversation: their number has no bound. Callers stand in one, which bounds them.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_TOKENS = (1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8)
_FILL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_PASSED_ON: Final = (
    "model_ca_unusable",
    "model_error",
    "model_forbidden",
    "model_key_missing",
    "model_malformed_tool_call",
    "model_not_found",
    "model_rate_limited",
    "model_timeout",
    "model_unauthorized",
    "model_unpaid",
    "model_unreachable",
)
"""Why a call of a model fails that another one may answer."""
_NOT_PASSED_ON: Final = ("model_context_overflow", "model_refused_request")
_NOT_SHORTENED: Final = (
    "budget",
    "empty",
    "inflated",
    "model_error",
    "no_gain",
    "nothing_to_cut",
    "open_fence",
    "pins_lost",
    "request_lost",
    "timeout",
    "too_long",
    "torn_pair",
)
"""Why a compaction changes nothing."""


class _Made:
    """Series of one registry, by names of the project."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"fleetwright_{name}", text, labels, registry=self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"fleetwright_{name}", text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, *labels: str, buckets: tuple[float, ...] = _SECONDS) -> Histogram:
        return Histogram(f"fleetwright_{name}", text, labels, registry=self._registry, buckets=buckets)


class Metrics:
    """One registry per process in production, one per test in tests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        make = _Made(registry)
        self._serving(make)
        self._model(make)
        self._memory(make)
        self._tools(make)
        self._compaction(make)

    def _serving(self, make: _Made) -> None:
        self.agent_info = make.gauge("agent_info", "The running revision; always 1.", "agent", "namespace", "revision")
        self.tasks = make.gauge("tasks", "Tasks that are not at rest, by state.", "state")
        self.tasks_lost = make.counter("tasks_lost_total", "Tasks in the log that could not be read any more.")
        self.upkeep_failures = make.counter("upkeep_failures_total", "Rounds of upkeep of which a part broke.")
        self.task_seconds = make.histogram("task_seconds", "From accepting a message to the task's rest.", "outcome")
        self.hitl_wait = make.histogram(
            "hitl_wait_seconds", "From asking a person to the reply.", "kind", buckets=_WAITS
        )
        self.auth_failures = make.counter("auth_failures_total", "Requests refused for their credential.", "reason")
        self.push_deliveries = make.counter(
            "push_deliveries_total", "Attempts to tell receivers of tasks, by what became of them.", "outcome"
        )
        self.loop_stalls = make.counter("loop_stalls_total", "Times that the event loop was blocked for seconds.")
        self.trace_failures = make.counter("trace_failures_total", "Batches of spans that the collector did not take.")
        self.audit_failures = make.counter(
            "audit_failures_total", "Lines of the audit trail that could not be written."
        )

    def _model(self, make: _Made) -> None:
        self.llm_calls = make.counter("llm_calls_total", "Calls of the model.", "model", "outcome")
        self.llm_tokens = make.counter("llm_tokens_total", "Tokens as the provider counted them.", "model", "direction")
        self.llm_cache_tokens = make.counter(
            "llm_cache_tokens_total", "Input tokens served from cache.", "model", "kind"
        )
        self.llm_cost_usd = make.counter("llm_cost_usd_total", "US dollars by the declared price.", "model")
        self.caller_cost_usd = make.counter(
            "caller_cost_usd_total", "US dollars by the caller they were for.", "caller"
        )
        self.budget_remaining_usd = make.gauge(
            "budget_remaining_usd", "US dollars left in the current window.", "period"
        )
        self.budget_remaining_tokens = make.gauge(
            "budget_remaining_tokens", "Tokens left in the current window.", "period"
        )
        self.budget_rejections = make.counter(
            "budget_rejections_total", "Calls that a budget had no room for.", "period"
        )
        self.llm_estimated_calls = make.counter(
            "llm_estimated_calls_total",
            "Calls cut or interrupted, whose tokens were estimated.",
            "model",
        )
        self.llm_cut_answers = make.counter(
            "llm_cut_answers_total", "Answers that end where they were as long as they may be.", "model"
        )
        self.llm_unpriced_calls = make.counter(
            "llm_unpriced_calls_total", "Calls of which the cost is not known.", "model"
        )
        self.model_fallbacks = make.counter(
            "model_fallbacks_total", "Calls that another model took over.", "from", "to", "reason"
        )
        self.empty_replies = make.counter("llm_empty_replies_total", "Replies to results of tools that said nothing.")
        self.mended_requests = make.counter(
            "llm_mended_requests_total",
            "Requests that a provider refused and that were changed.",
            "outcome",
        )
        self.repeated_calls = make.counter(
            "repeated_tool_calls_total", "Turns that made one call again and again with one result.", "outcome"
        )
        self.llm_latency = make.histogram("llm_latency_seconds", "A whole model call.", "model")
        self.llm_first_token = make.histogram("llm_first_token_seconds", "Until the first token of a call.", "model")

    def _memory(self, make: _Made) -> None:
        self.memory_bytes = make.gauge("memory_bytes", "Bytes in the memory volume, by what they are for.", "part")
        self.memory_limit_bytes = make.gauge("memory_limit_bytes", "Bytes that the memory may have.")
        self.memory_free_bytes = make.gauge("memory_free_bytes", "Bytes that are free on the memory volume.")
        self.memory_full = make.gauge("memory_full", "1 while no new task begins for want of room.")
        self.conversations_forgotten = make.counter(
            "conversations_forgotten_total", "Conversations that made way, by why.", "reason"
        )
        self.sessions_lost = make.counter(
            "sessions_lost_total", "Summaries of an exchange that could not be written; the answers went out."
        )
        self.knowledge_ingested = make.counter(
            "knowledge_ingested_total",
            "Results of tools that were to be kept as facts, by what became of them.",
            "outcome",
        )
        self.skills_learned = make.counter("skills_learned_total", "Skills that were learned.", "outcome")
        self.skills_recalled = make.counter("skills_recalled_total", "Learned skills that were given with a message.")
        self.skills_curated = make.counter("skills_curated_total", "Learned skills that went, by why.", "outcome")

    def _tools(self, make: _Made) -> None:
        self.tool_calls = make.counter("tool_calls_total", "Calls of tools.", "tool", "outcome")
        self.tool_latency = make.histogram("tool_latency_seconds", "A tool call.", "tool")
        self.plugin_loaded = make.gauge(
            "plugin_loaded", "1 where a plugin is loaded, 0 where it could not be.", "plugin"
        )
        self.tool_schemas_withheld = make.counter(
            "tool_schemas_withheld_total", "Declarations of tools that calls of the model were spared."
        )
        self.sub_agent_tasks = make.counter(
            "sub_agent_tasks_total", "Tasks of sub-agents that came to an end.", "sub_agent", "outcome"
        )
        self.mcp_breaker_open = make.gauge(
            "mcp_breaker_open", "1 while calls of a server that does not answer are refused.", "server"
        )

    def _compaction(self, make: _Made) -> None:
        self.compactions = make.counter(
            "compactions_total", "Context compactions that were tried.", "trigger", "method", "outcome"
        )
        self.compaction_tokens = make.counter("compaction_tokens_total", "Estimated tokens before and after.", "phase")
        self.compaction_cost_usd = make.counter("compaction_cost_usd_total", "US dollars spent on summaries.")
        self.compaction_llm_tokens = make.counter(
            "compaction_llm_tokens_total", "Tokens of summary calls.", "direction", "cached"
        )
        self.compaction_seconds = make.histogram("compaction_seconds", "A compaction, the summary included.")
        self.compaction_failures = make.counter(
            "compaction_failures_total", "Compactions that changed nothing.", "reason"
        )
        self.overflow_recoveries = make.counter(
            "overflow_recoveries_total", "Turns saved by compacting after the provider refused the size.", "outcome"
        )
        self.compaction_cache_rewrite_tokens = make.counter(
            "compaction_cache_rewrite_tokens_total", "Tokens that a provider reads anew because the prompt changed."
        )
        self.compaction_breaker_open = make.gauge(
            "compaction_breaker_open", "Conversations in which compaction waits for the caller's next message."
        )
        self.compaction_pins_missing = make.counter(
            "compaction_pins_missing_total", "Pins that could not be shown: their source is gone, or their room full."
        )
        self.refetch_after_compaction = make.counter(
            "refetch_after_compaction_total", "Calls that repeat one whose result was put aside.", "tool"
        )
        self.prompt_tokens_since_compaction = make.histogram(
            "prompt_tokens_since_compaction", "Prompt tokens sent between two summaries.", buckets=_TOKENS
        )
        self.context_fill = make.histogram(
            "context_fill_ratio", "Part of the window a model call filled.", buckets=_FILL
        )

    def declare(
        self, models: Iterable[str], *, lines: Iterable[Sequence[str]] = (), periods: Iterable[str] = ()
    ) -> None:
        """Starts counters at zero: a series that begins with its first event hides it from `increase()`.

        Args: `lines` are models of which each may take over from each; `periods` are those of the budgets.
        """
        for counter, values in (
            (self.push_deliveries, ("delivered", "retried", "dead", "dropped")),
            (self.conversations_forgotten, ("idle", "count", "room")),
            (self.skills_learned, ("new", "again")),
            (self.skills_curated, ("merged", "pruned")),
            (self.repeated_calls, ("nudged", "ended")),
            (self.compaction_failures, _NOT_SHORTENED),
            (self.budget_rejections, periods),
        ):
            for value in values:
                counter.labels(value)
        for outcome in ("completed", "failed"):
            self.task_seconds.labels(outcome)
        for model in models:
            self._declare_model(model)
        for gone, comes in {pair for line in lines for pair in permutations(line, 2)}:
            for reason in _PASSED_ON:
                self.model_fallbacks.labels(gone, comes, reason)

    def _declare_model(self, model: str) -> None:
        for outcome in ("ok", *_PASSED_ON, *_NOT_PASSED_ON):
            self.llm_calls.labels(model, outcome)
        self.llm_cost_usd.labels(model)
        self.llm_unpriced_calls.labels(model)
        for direction in ("input", "output"):
            self.llm_tokens.labels(model, direction)
