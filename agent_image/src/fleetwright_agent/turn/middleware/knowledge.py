"""Gives each turn the facts that are remembered for its caller: those of every turn, and those that fit the message.

They stand as data in the user's role, right before the message under way, and are stored nowhere else: a fact that is
forgotten is in no later prompt. Refuses: callers that are agents, and letting a turn fail for want of memory.
"""

import logging
from typing import Final

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.config.memory import KnowledgeMemory
from fleetwright_agent.memory.database import MemoryUnusable
from fleetwright_agent.memory.facts import told
from fleetwright_agent.memory.knowledge import Knowledge
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.frames import TurnRequest
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.people import is_remembered

_log = logging.getLogger(__name__)
HOT_CHARACTERS: Final = 6000
_ASKED: Final = 2000
"""Of a message: what its facts are searched by."""


class KnowledgeLink:
    """Stands inside compaction: what it adds is no part of the conversation."""

    def __init__(self, knowledge: Knowledge, policy: KnowledgeMemory) -> None:
        self._knowledge = knowledge
        self._policy = policy

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        if context.remembered is None:
            # Once for each turn: what the provider has cached of it stays as it is.
            context.remembered = await self._found(context.request)
        if context.remembered:
            request = request.override(messages=_with(list(request.messages), context.remembered))
        return await call(request)

    async def _found(self, turn: TurnRequest) -> str:
        if not (self._policy.enabled and is_remembered(turn)):
            return ""
        try:
            hot = await self._knowledge.hot(turn.owner, characters=HOT_CHARACTERS) if self._policy.hot else []
            asked, most = turn.text[:_ASKED], self._policy.top_k
            fitting = await self._knowledge.recall(turn.owner, asked, most=most) if most else []
        except MemoryUnusable as error:
            _log.warning("what is remembered cannot be read: %s", error)
            return ""
        given = {fact.n for fact in hot}
        return told([*hot, *(fact for fact in fitting if fact.n not in given)])


def _with(messages: list[AnyMessage], facts: str) -> list[AnyMessage]:
    """Before the message under way, which is the last of the user's."""
    places = (i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], HumanMessage))
    at = next(places, len(messages))
    return [*messages[:at], HumanMessage(facts), *messages[at:]]
