"""Tells the provider what of a prompt it may keep, where the model is declared to understand that.

The seed systems have this outermost. Here it stands inside the fallback: how it is said differs by provider, and which
provider is asked is known only there.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

from langchain_core.messages import AnyMessage

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.models import Chat


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
    """How many messages stand before what is remembered, which the next prompt has elsewhere; 0 where nothing is."""
    places = (i for i in range(len(messages) - 1, -1, -1) if messages[i].content == context.remembered)
    return next(places, 0) if context.remembered else 0


def cache_settings(chat: Chat, context: TurnContext) -> dict[str, Any]:
    """What a call of this conversation says of its prompt; nothing where the model is not declared to understand."""
    if not chat.endpoint.prompt_cache:
        return {}
    # The thread names the caller, which is nothing for a provider to read.
    return chat.cached(hashlib.sha256(context.thread.encode()).hexdigest()[:32])
