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

    def begins_tasks(self, declared: Chat, chat: Chat, context: TurnContext) -> bool:
        """Return True if each task of the agent begins with a call that costs at least as much as one of `chat`.

        Return False in case of doubt, because callers get no answer from an agent with which no task can begin.

        Args:
            declared: The model that the request names.
            chat: The model that `instead_of` has returned for it.
            context: The context of the turn.
        """
        endpoint = declared.endpoint
        is_own = (endpoint.name, endpoint.base_url) == (self._own.name, self._own.base_url)
        if context.request.sub_agent or context.stands_in or not is_own:
            return False
        # The system prompt names unreachable servers, and is shorter once they are back.
        if context.unreachable:
            return False
        # Until a budget requires the cheaper model, running calls may still bring the budget there.
        return chat is not declared or not self._accounting.has_downgrade

    def answered(self, thread: str, chat: Chat) -> None:
        self._answered[thread] = chat
        self._answered.move_to_end(thread)
        if len(self._answered) > _MOST:
            self._answered.popitem(last=False)

    async def beside(self, own: Chat, context: TurnContext, *, cold: bool) -> Chat:
        """Return the model for a summary: the model that answered last, unless its provider's cache has expired."""
        last = None if cold else self._answered.get(context.thread)
        return last or await self.instead_of(own, context)
