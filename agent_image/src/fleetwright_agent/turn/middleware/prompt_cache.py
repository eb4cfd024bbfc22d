"""Tells the provider what of a prompt it may keep, where the model is declared to understand that.

The seed systems have this outermost. Here it stands inside the fallback: how it is said differs by provider, and which
provider is asked is known only there.
"""

import hashlib
from typing import Any, cast

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.models import Chat


class PromptCache:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        settings = cache_settings(cast("Chat", request.model), request.runtime.context)
        return await call(request.override(model_settings={**request.model_settings, **settings}))


def cache_settings(chat: Chat, context: TurnContext) -> dict[str, Any]:
    """What a call of this conversation says of its prompt; nothing where the model is not declared to understand."""
    if not chat.endpoint.prompt_cache:
        return {}
    # The thread names the caller, which is nothing for a provider to read.
    return chat.cached(hashlib.sha256(context.thread.encode()).hexdigest()[:32])
