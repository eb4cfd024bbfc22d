"""Gives each turn what is remembered for its caller and fits the message: facts, and how such tasks were done.

It stands as data in the user's role, at the very end of each prompt, and is stored nowhere: what is forgotten is in no
later prompt, and all that stands before it is the beginning of the next one, byte for byte, which providers then need
not read anew. Refuses: callers that are agents, and letting a turn fail for want of memory.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.sqlite.engine.database import MemoryUnusable
from fleetwright_agent.turn.approval_policy import is_remembered
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request

_log = logging.getLogger(__name__)
Recollect = Callable[[TurnRequest, str], Awaitable[str]]
"""What is remembered for a turn and what was said before it, as the model reads it; empty where there is nothing."""
_BEFORE: Final = 8
"""Messages."""


class RecollectionLink:
    """Stands inside compaction: what it adds is no part of the conversation."""

    def __init__(self, sources: Sequence[Recollect]) -> None:
        self._sources = tuple(sources)

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        if context.remembered is None:
            # Once for each turn: all of its calls are told the same.
            context.remembered = await self._found(context.request, _before(request.state["messages"]))
        if context.remembered:
            request = request.override(messages=[*request.messages, HumanMessage(context.remembered)])
        return await call(request)

    async def _found(self, turn: TurnRequest, before: str) -> str:
        if not is_remembered(turn):
            return ""
        found: list[str] = []
        for source in self._sources:
            try:
                found.append(await source(turn, before))
            except MemoryUnusable as error:
                _log.warning("what is remembered cannot be read: %s", error)
        return "\n\n".join(filter(None, found))


def _before(messages: Sequence[AnyMessage]) -> str:
    """What the caller and the agent said before the newest message of the caller, the newest first."""
    asked = next((n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], HumanMessage)), 0)
    said = (each.text for each in reversed(messages[max(0, asked - _BEFORE) : asked]) if _is_said(each))
    return "\n".join(filter(None, said))


def _is_said(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage | AIMessage)
