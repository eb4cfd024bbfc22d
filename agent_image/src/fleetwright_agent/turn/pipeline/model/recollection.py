"""Adds memories that match the caller's message to the prompt: remembered facts, and skills from similar tasks.

The memories are fenced data in a user-role message at the end of each prompt. They are not stored in the conversation,
so a forgotten fact appears in no later prompt. Providers can cache everything before this message. Callers that are
agents, and callers whose role does not allow it, get no memories. A storage failure does not fail the turn.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request

_log = logging.getLogger(__name__)
Recollect = Callable[[TurnRequest, str], Awaitable[str]]
"""Returns the text of the memories for a turn; empty if none match. The second argument is the text before the turn."""
_BEFORE: Final = 8
"""The number of earlier messages that the lookup considers."""


class RecollectionLink:
    """Adds the message after the compaction link, because compaction must neither count nor summarise this message."""

    def __init__(self, sources: Sequence[Recollect], access: MemoryAccess) -> None:
        self._sources = tuple(sources)
        self._access = access

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        if context.remembered is None:
            # Look up once for each turn, so that all of its calls have the same prompt.
            context.remembered = await self._found(context.request, _before(request.state["messages"]))
        if context.remembered:
            request = request.override(messages=[*request.messages, HumanMessage(context.remembered)])
        return await call(request)

    async def _found(self, turn: TurnRequest, before: str) -> str:
        if not self._access.may_read(turn):
            return ""
        found: list[str] = []
        for source in self._sources:
            try:
                found.append(await source(turn, before))
            except MemoryUnusable as error:
                _log.warning("remembered facts cannot be read: %s", error)
        return "\n\n".join(filter(None, found))


def _before(messages: Sequence[AnyMessage]) -> str:
    """Return the texts of caller and agent before the caller's newest message, newest first."""
    asked = next((n for n in range(len(messages) - 1, -1, -1) if isinstance(messages[n], HumanMessage)), 0)
    said = (each.text for each in reversed(messages[max(0, asked - _BEFORE) : asked]) if _is_said(each))
    return "\n".join(filter(None, said))


def _is_said(message: AnyMessage) -> bool:
    return isinstance(message, HumanMessage | AIMessage)
