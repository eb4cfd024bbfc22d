"""Stores the results of certain tools as facts of the caller, each with its tool as the source.

Only tracing is outside this wrapper, so it sees exactly the result that the model receives. The stored text is joined
into one line, redacted and truncated. A failure to store a fact is counted and logged, and the result of the call stays
the same. Results that are errors, and results for callers that may not write memory, are not stored. Prompts contain
stored facts as data, never as instructions.
"""

import logging
from collections.abc import Callable

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from fleetwright_agent.config.memory import KnowledgeMemory
from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.memory.fact_text import normalise_fact
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.facts import FactStore, TooManyFacts
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ToolRunner

_logger = logging.getLogger(__name__)


class FactIngest:
    def __init__(
        self,
        runner: ToolRunner,
        knowledge: FactStore,
        policy: KnowledgeMemory,
        *,
        access: MemoryAccess,
        redact: Callable[[str], str],
        metrics: Metrics,
    ) -> None:
        self._runner = runner
        self._knowledge = knowledge
        self._policy = policy
        self._access = access
        self._redact = redact
        self._count = metrics.knowledge_ingested.labels

    async def run_tool(self, request: ToolCallRequest, context: TurnContext) -> ToolMessage:
        result = await self._runner.run_tool(request, context)
        name, text = request.tool_call["name"], normalise_fact(result.text, self._redact)
        if name not in self._policy.ingest or result.status == "error":
            return result
        if text and self._access.may_write(context.request):
            self._count(await self._kept(name, text, context)).inc()
        return result

    async def _kept(self, name: str, text: str, context: TurnContext) -> str:
        """Store the result, and return the outcome for the metric. Repeating a call after a restart adds no fact."""
        turn = context.request
        source = Provenance(f"tool {name} for {turn.owner}", turn.context_id, turn.task_id)
        most = self._policy.max_facts_per_caller
        try:
            await self._knowledge.remember(turn.owner, text, source, hot=False, most=most)
        except TooManyFacts:
            return "full"
        except MemoryUnusable:
            _logger.exception("a tool result cannot be stored as a fact", extra={"task": turn.task_id, "tool": name})
            return "failed"
        return "kept"
