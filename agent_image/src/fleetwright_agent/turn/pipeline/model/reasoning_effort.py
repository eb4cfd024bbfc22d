"""Tells the model how long to think, where it is declared to, or where a caller may say so and does.

Inside the fallback, for each model is declared by itself. Refuses: telling a sub-agent's model what its caller's caller
wants of the agent's.
"""

from typing import cast

from fleetwright_agent.config.model import EFFORTS, Effort
from fleetwright_agent.protocol.extensions import REASONING_EFFORT
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.models import Chat


class ReasoningEffort:
    def __init__(self, *, chosen: bool = False) -> None:
        """Args: `chosen` says whether a caller may."""
        self._chosen = chosen

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        effort = self._wanted(request.runtime.context) or cast("Chat", request.model).endpoint.reasoning_effort
        if effort is None:
            return await call(request)
        # The three clients have one name for it, and each its provider's.
        settings = {**request.model_settings, "reasoning_effort": effort.value}
        return await call(request.override(model_settings=settings))

    def _wanted(self, context: TurnContext) -> Effort | None:
        wanted = context.request.metadata.get(REASONING_EFFORT)
        # A task may have begun when nobody looked at what its request says there.
        if not self._chosen or context.request.sub_agent or not isinstance(wanted, str) or wanted not in EFFORTS:
            return None
        return Effort(wanted)
