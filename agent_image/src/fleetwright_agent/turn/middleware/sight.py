"""Sends pictures to vision models only, and replaces them by text for other models.

This link is inside the fallback, because vision differs between the models of an agent.
"""

from typing import cast

from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.models import Chat
from fleetwright_agent.turn.pictures import unseen


class Sight:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if cast("Chat", request.model).endpoint.vision:
            return await call(request)
        return await call(request.override(messages=unseen(request.messages)))
