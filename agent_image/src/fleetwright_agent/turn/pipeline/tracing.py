"""Spans of model calls and tool calls, with the attribute names of OpenTelemetry's GenAI conventions."""

from typing import TYPE_CHECKING, Final, cast

from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from fleetwright_agent.telemetry.tracing import Tracing
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request, ToolRunner
from fleetwright_agent.turn.pipeline.model.chat_span import chat_span
from fleetwright_agent.turn.pipeline.model.model_calls import answer_of

if TYPE_CHECKING:
    from fleetwright_agent.turn.providers.factory import Chat


UNKNOWN: Final = "(unknown)"


class ModelTracing:
    """The innermost link of a model call, so that each attempt is a span."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        chat = cast("Chat", request.model)
        return await chat_span(lambda: call(request), self._tracing, chat, request.runtime.context, answer=answer_of)


class ToolTracing:
    """Wraps the whole tool call, including policy checks and approval."""

    def __init__(self, runner: ToolRunner, tracing: Tracing) -> None:
        self._runner = runner
        self._tracing = tracing

    async def run_tool(self, request: ToolCallRequest, context: TurnContext) -> ToolMessage:
        # A tool name that the model invented is model output, and must not appear in spans.
        called, identity = request.tool_call["name"], request.tool_call["id"] or ""
        name = called if called in context.tools else UNKNOWN
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": identity,
        }
        with self._tracing.span(f"execute_tool {name}", about) as span:
            result = await self._runner.run_tool(request, context)
            if result.status == "error":
                span.fail("tool_error")
            return result
