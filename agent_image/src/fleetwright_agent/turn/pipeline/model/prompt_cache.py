"""Adds the provider's prompt-cache settings, if the model is declared to support them.

This link is inside the fallback link, because the settings depend on the provider of the model that is called.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.factory import Chat


class PromptCache:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        chat, messages = cast("Chat", request.model), list(request.messages)
        settings = cache_settings(chat, context)
        at = _lasting(messages, context)
        if settings and at and (marked := chat.ends_cache(messages[at - 1])) is not None:
            settings, messages[at - 1] = {}, marked
        return await call(request.override(messages=messages, model_settings={**request.model_settings, **settings}))


def _lasting(messages: Sequence[AnyMessage], context: TurnContext) -> int:
    """Return the number of messages before the remembered facts, or 0 without such facts.

    These messages are also the prefix of the next prompt, which has the facts at its end.
    """
    places = (i for i in range(len(messages) - 1, -1, -1) if messages[i].content == context.remembered)
    return next(places, 0) if context.remembered else 0


def cache_settings(chat: Chat, context: TurnContext) -> dict[str, Any]:
    """The prompt-cache arguments for calls of this conversation; empty if the model is not declared to support them."""
    if not chat.endpoint.prompt_cache:
        return {}
    # Send a hash: the thread id contains the caller's name, which the provider should not receive.
    return chat.cached(hashlib.sha256(context.thread.encode()).hexdigest()[:32])
