"""One LangGraph middleware, which calls the links of the agent's middleware chain in order.

Ten separate middlewares take three to ten times as long, because LangGraph switches to a thread for each. The links are
plain objects: the first link is the outermost, and the last link makes the real call.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Protocol, cast

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import ToolMessage
from langgraph.prebuilt.tool_node import ToolCallRequest

from fleetwright_agent.turn.context import TurnContext, TurnState

Request = ModelRequest[TurnContext]
Reply = ModelResponse[Any] | ExtendedModelResponse[Any]
ModelCall = Callable[[Request], Awaitable[Reply]]


class ModelLink(Protocol):
    async def around_model(self, request: Request, call: ModelCall) -> Reply: ...


class ToolRunner(Protocol):
    async def run_tool(self, request: ToolCallRequest, context: TurnContext) -> ToolMessage: ...


class TurnMiddleware(AgentMiddleware[TurnState, TurnContext, Any]):
    state_schema = TurnState

    def __init__(self, links: Sequence[ModelLink], tools: ToolRunner) -> None:
        super().__init__()
        self._links = tuple(links)
        self._tools = tools

    async def awrap_model_call(self, request: Request, handler: Callable[[Request], Awaitable[Any]]) -> Any:
        call = cast("ModelCall", handler)
        for link in reversed(self._links):
            call = partial(link.around_model, call=call)
        return await call(request)

    async def awrap_tool_call(self, request: ToolCallRequest, handler: object) -> ToolMessage:  # noqa: ARG002 - LangGraph's signature
        """Run the tool here, because the graph's own tool node has no tools."""
        return await self._tools.run_tool(request, cast("TurnContext", request.runtime.context))
