"""Shows pictures to models that see, and tells the others in words that there were some (PA-021).

Inside the fallback: of the models that an agent asks, one may see and the next may not.
"""

from typing import cast

from fleetwright_agent.turn.images import unseen
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.models import Chat


class Sight:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if cast("Chat", request.model).endpoint.vision:
            return await call(request)
        return await call(request.override(messages=unseen(request.messages)))
