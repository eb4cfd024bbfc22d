"""Sets the reasoning effort of the model, as declared or as chosen by a permitted caller.

This link is inside the fallback link, because each model has its own declaration. A caller's choice applies to the
models of the agent, not to the models of its sub-agents.
"""

from typing import cast

from fleetwright_a2a.extensions import REASONING_EFFORT
from fleetwright_agent.config.model import EFFORTS, Effort
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.providers.factory import Chat


class ReasoningEffort:
    def __init__(self, *, chosen: bool = False) -> None:
        """Args: `chosen` is True if callers may choose the effort."""
        self._chosen = chosen

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        effort = self._wanted(request.runtime.context) or cast("Chat", request.model).endpoint.reasoning_effort
        if effort is None:
            return await call(request)
        # All three provider clients accept this name, and translate it to the provider's own name.
        settings = {**request.model_settings, "reasoning_effort": effort.value}
        return await call(request.override(model_settings=settings))

    def _wanted(self, context: TurnContext) -> Effort | None:
        wanted = context.request.metadata.get(REASONING_EFFORT)
        # Validate again: the task may have started under an older configuration that did not check this field.
        if not self._chosen or context.request.sub_agent or not isinstance(wanted, str) or wanted not in EFFORTS:
            return None
        return Effort(wanted)
