"""Adds an overview of the workspace to the prompt, as fenced data in a user-role message before the caller's message.

The overview is read once for each turn, and its place in the prompt stays the same during the turn. So each prompt of
the turn begins with the whole previous prompt, which providers can cache. The overview is not stored in the
conversation, and compaction neither counts nor summarises it.
"""

from collections.abc import Awaitable, Callable, Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request

Overview = Callable[[TurnRequest], Awaitable[str]]
"""Returns the text of the overview for a turn. The text is empty if there is no overview."""


class WorkspaceContextLink:
    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        if context.workspace is None:
            context.workspace = await self._overview(context.request)
            context.workspace_before = _newest_id(request.state["messages"])
        if context.workspace:
            messages = list(request.messages)
            messages.insert(_place(messages, context.workspace_before), HumanMessage(context.workspace))
            request = request.override(messages=messages)
        return await call(request)


def _newest_id(messages: Sequence[AnyMessage]) -> str | None:
    """Return the id of the caller's newest message."""
    return next((message.id for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def _place(messages: Sequence[AnyMessage], before: str | None) -> int:
    """Return the index of the message with this id, or the end if a compaction has removed the message."""
    places = (n for n, message in enumerate(messages) if before is not None and message.id == before)
    return next(places, len(messages))
