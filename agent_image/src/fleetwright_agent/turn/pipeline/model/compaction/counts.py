"""The metrics of compaction, and the frames that report a compaction to the caller."""

import math
from collections.abc import Collection
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, ToolCall, ToolMessage

from fleetwright_agent.protocol.frames import CompactionEnd
from fleetwright_agent.telemetry.failure_reasons import CompactionFailureReason
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.compaction.prompt import Prompt, tokens_since
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.context import TurnContext

if TYPE_CHECKING:
    from fleetwright_agent.turn.compaction.compactor import CompactionResult


class CompactionMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def filled(self, part: float) -> None:
        self._metrics.context_fill.observe(part)

    def observed(self, trigger: str) -> None:
        self._metrics.compactions.labels(trigger, "none", "observed").inc()

    def made(
        self, context: TurnContext, made: "CompactionResult", prompt: Prompt, *, trigger: str, seconds: float
    ) -> None:
        metrics = self._metrics
        metrics.compactions.labels(trigger, made.method, "ok").inc()
        metrics.compaction_seconds.observe(seconds)
        metrics.compaction_tokens.labels("before").inc(made.before)
        metrics.compaction_tokens.labels("after").inc(made.after)
        metrics.compaction_cache_rewrite_tokens.inc(made.rewritten)
        metrics.compaction_pins_missing.inc(made.pins_missing)
        if made.method != "prune":
            metrics.prompt_tokens_since_compaction.observe(tokens_since(prompt))
        payback = None if made.payback is None or math.isinf(made.payback) else math.ceil(made.payback)
        context.emit(CompactionEnd("ok", made.before, made.after, trigger, made.method, payback, made.cheapest))

    def failed(
        self, context: TurnContext, reason: CompactionFailureReason, tokens: int, *, trigger: str, seconds: float
    ) -> None:
        self._metrics.compactions.labels(trigger, "summary", "failed").inc()
        self._metrics.compaction_failures.labels(reason).inc()
        self._metrics.compaction_seconds.observe(seconds)
        context.emit(CompactionEnd("failed", tokens, tokens, trigger, "summary"))

    def repinned(self, missing: int) -> None:
        self._metrics.compaction_pins_missing.inc(missing)

    def recovered(self, outcome: str) -> None:
        self._metrics.overflow_recoveries.labels(outcome).inc()

    def failing(self, conversations: int) -> None:
        """Report the number of conversations in which compaction waits for the caller's next message."""
        self._metrics.compaction_breaker_open.set(conversations)

    def repeated(self, context: TurnContext, reply: AIMessage | None, prompt: Prompt) -> None:
        """Count calls in the reply that repeat an earlier call whose result is no longer shown completely."""
        if reply is None or prompt.view is None or not reply.tool_calls:
            return
        pruned = prompt.view.pruned.keys()
        for call in reply.tool_calls:
            if call["name"] != RECALL and _is_put_aside(call, prompt, pruned):
                # Models invent tool names, and an invented name must not become a metric label.
                label = call["name"] if call["name"] in context.tools else "(unknown)"
                self._metrics.refetch_after_compaction.labels(label).inc()


def _is_put_aside(call: ToolCall, prompt: Prompt, pruned: Collection[str]) -> bool:
    """Return True if the same call was made before, and the earlier result is archived or truncated."""
    made = [
        (index, each["id"])
        for index, message in enumerate(prompt.stored)
        if isinstance(message, AIMessage)
        for each in message.tool_calls
        if each["name"] == call["name"] and each["args"] == call["args"]
    ]
    if any(index < prompt.cut for index, _ in made):
        return True
    names = {identity for _, identity in made}
    return any(isinstance(m, ToolMessage) and m.tool_call_id in names and m.id in pruned for m in prompt.stored)
