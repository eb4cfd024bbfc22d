"""Who is asked: the declared model, or the cheaper one that a budget puts in its place; and who writes summaries.

A summary is written by whoever answered last, while its provider has the prompt in its cache: a fallback, a cheaper
model or a caller's choice as much as the agent's own. Refuses: calling anybody.
"""

from collections import OrderedDict
from typing import Final

from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import Books
from fleetwright_agent.turn.providers.models import Chat

_MOST: Final = 1000
"""Conversations of which it is known who answered last; of others it was the agent's own model."""


class ModelChoice:
    def __init__(self, own: Model, books: Books) -> None:
        self._own = own
        self._books = books
        self._answered: OrderedDict[str, Chat] = OrderedDict()
        """By thread, where it was another than the one that is declared first."""

    async def instead_of(self, chat: Chat, context: TurnContext) -> Chat:
        """A cheaper model is declared for the address of the agent's own, and takes the place of no fallback."""
        if not self._books.has_budgets or context.stands_in or chat.endpoint.base_url != self._own.base_url:
            return chat
        cheaper = await self._books.cheaper()
        return chat.other(cheaper) if cheaper and cheaper.name != chat.endpoint.name else chat

    def answered(self, thread: str, chat: Chat) -> None:
        self._answered[thread] = chat
        self._answered.move_to_end(thread)
        if len(self._answered) > _MOST:
            self._answered.popitem(last=False)

    async def beside(self, own: Chat, context: TurnContext, *, cold: bool) -> Chat:
        """Who writes beside a conversation of `own`. Where the cache is cold nobody knows the prompt better than it."""
        last = None if cold else self._answered.get(context.thread)
        return last or await self.instead_of(own, context)
