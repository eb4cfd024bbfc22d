"""Tells the provider what of a prompt it may keep, where the model is declared to understand that.

The seed systems have this outermost. Here it stands inside the fallback: how it is said differs by provider, and which
provider is asked is known only there.
"""

import hashlib
from typing import cast

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.models import Chat


class PromptCache:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        chat = cast("Chat", request.model)
        if not chat.endpoint.prompt_cache:
            return await call(request)
        context: TurnContext = request.runtime.context
        # The thread names the caller, which is nothing for a provider to read.
        key = hashlib.sha256(context.thread.encode()).hexdigest()[:32]
        return await call(request.override(model_settings={**request.model_settings, **chat.cached(key)}))
