"""The metrics of tokens and costs. They continue from the stored usage of earlier processes."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from prometheus_client import CollectorRegistry

from fleetwright_agent.protocol.frames import Purpose
from fleetwright_agent.storage.usage import NOBODY, ModelCallUsage, TotalUsage, UsageSum
from fleetwright_agent.telemetry.metrics import OTHER_CALLERS, Metrics, counts_of

_MOST_CALLERS: Final = 50


class UsageCounters:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._callers: set[str] = set()

    def count(self, call: ModelCallUsage, *, estimated: bool) -> None:
        """Count the tokens and the cost of one call, except for its caller."""
        if estimated:
            self._metrics.llm_estimated_calls.labels(call.model).inc()
        _count(call.sum, self._metrics, model=call.model, purpose=call.purpose)

    def count_caller(self, owner: str, usd: Decimal) -> None:
        """Count a cost for its caller. Count only stored costs, because the next process can restore no others."""
        self._metrics.caller_cost_usd.labels(self._label(owner)).inc(float(usd))

    def resume(self, totals: Iterable[TotalUsage]) -> None:
        """Raise the counters to the stored sums of all processes."""
        stored = Metrics(CollectorRegistry())
        for total in totals:
            _count(total.sum, stored, model=total.model, purpose=total.purpose)
            # The cost of an erased caller was counted under its name before.
            if total.sum.is_priced and total.caller != NOBODY:
                stored.caller_cost_usd.labels(self._label(total.caller)).inc(float(total.sum.usd))
        self._metrics.raise_to(counts_of(stored.registry.collect()))

    def _label(self, owner: str) -> str:
        if owner not in self._callers and len(self._callers) >= _MOST_CALLERS:
            return OTHER_CALLERS
        self._callers.add(owner)
        return owner


def _count(used: UsageSum, metrics: Metrics, *, model: str, purpose: str) -> None:
    """Count calls to one model for one purpose."""
    metrics.llm_tokens.labels(model, "input").inc(used.input_tokens)
    metrics.llm_tokens.labels(model, "output").inc(used.output_tokens)
    metrics.llm_cache_tokens.labels(model, "read").inc(used.cache_read_tokens)
    metrics.llm_cache_tokens.labels(model, "write").inc(used.cache_write_tokens)
    if used.unpriced:
        metrics.llm_unpriced_calls.labels(model).inc(used.unpriced)
    if used.is_priced:
        metrics.llm_cost_usd.labels(model).inc(float(used.usd))
    if purpose == Purpose.SUMMARY:
        # Some providers do not count cached tokens as input.
        fresh = max(0, used.input_tokens - used.cache_read_tokens)
        metrics.compaction_llm_tokens.labels("input", "false").inc(fresh)
        metrics.compaction_llm_tokens.labels("input", "true").inc(used.cache_read_tokens)
        metrics.compaction_llm_tokens.labels("output", "false").inc(used.output_tokens)
        metrics.compaction_cost_usd.inc(float(used.usd))
