"""Chooses between the declared model and a budget's cheaper model, and chooses the model that writes summaries.

The model that answered last writes the summary, because its provider has cached the prompt. This model may be a
fallback, a cheaper model or a caller's choice. This module calls no model.
"""

from collections import OrderedDict
from typing import Final

from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.providers.factory import Chat

_MOST: Final = 1000
"""The maximum number of conversations whose last model is recorded. For others, the agent's own model is assumed."""


class ModelChoice:
    def __init__(self, own: Model, accounting: CostAccounting) -> None:
        self._own = own
        self._accounting = accounting
        self._answered: OrderedDict[str, Chat] = OrderedDict()
        """The model that answered last, by thread."""

    async def instead_of(self, chat: Chat, context: TurnContext) -> Chat:
        """Return the cheaper model that a budget requires, otherwise `chat`.

        The cheaper model never replaces a fallback, or a model with another base URL than the agent's own model.
        """
        if not self._accounting.has_budgets or context.stands_in or chat.endpoint.base_url != self._own.base_url:
            return chat
        cheaper = await self._accounting.cheaper()
        return chat.other(cheaper) if cheaper and cheaper.name != chat.endpoint.name else chat

    def answered(self, thread: str, chat: Chat) -> None:
        self._answered[thread] = chat
        self._answered.move_to_end(thread)
        if len(self._answered) > _MOST:
            self._answered.popitem(last=False)

    async def beside(self, own: Chat, context: TurnContext, *, cold: bool) -> Chat:
        """Return the model for a summary: the model that answered last, unless its provider's cache has expired."""
        last = None if cold else self._answered.get(context.thread)
        return last or await self.instead_of(own, context)
