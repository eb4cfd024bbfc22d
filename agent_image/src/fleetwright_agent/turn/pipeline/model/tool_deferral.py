"""Declares only a few of many tools to the model, plus the tools that the model has searched for or called.

Every tool of the turn stays callable. Declarations of found tools follow the permanent declarations, in the order in
which the model found them. The provider's cache of the earlier declarations therefore stays valid.
"""

from collections.abc import Iterator, Sequence

from langchain_core.messages import AIMessage, AnyMessage, ToolMessage

from fleetwright_agent.config.tools import ToolSearch
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.search.tool import NAME, deferred_tools, listed
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request


class DeferralLink:
    """Wraps the system prompt link, which declares the tools, and the compaction link, which measures them."""

    def __init__(self, policy: ToolSearch, metrics: Metrics) -> None:
        self._policy = policy
        self._metrics = metrics

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        hidden = deferred_tools(context.tools, self._policy)
        shown = found_tools(request.state["messages"])
        context.withheld, context.found = hidden, tuple(name for name in shown if name in hidden - {NAME})
        self._metrics.tool_schemas_withheld.inc(len(hidden - {NAME, *context.found}))
        return await call(request)


def found_tools(messages: Sequence[AnyMessage]) -> list[str]:
    """Return the tool names that were found or called in the conversation, without duplicates, in order."""
    return list(dict.fromkeys(name for message in messages for name in _named(message)))


def _named(message: AnyMessage) -> Iterator[str]:
    if isinstance(message, AIMessage):
        yield from (call["name"] for call in message.tool_calls)
    elif isinstance(message, ToolMessage) and message.name == NAME and message.status == "success":
        yield from listed(message.text)
