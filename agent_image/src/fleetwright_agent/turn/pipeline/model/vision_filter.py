"""Sends pictures only to models with vision, and replaces pictures by text for other models.

This link is inside the fallback link, because only some of an agent's models may have vision.
"""

from typing import cast

from fleetwright_agent.turn.images import describe_images
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.factory import Chat


class VisionFilter:
    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if cast("Chat", request.model).endpoint.vision:
            return await call(request)
        return await call(request.override(messages=describe_images(request.messages)))
