"""Outermost link: gives each model call the system prompt and the tools of this very turn."""

from collections.abc import Callable

from langchain_core.messages import SystemMessage

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request


class EquipmentLink:
    """Tools come from servers that appear and vanish, so the graph is built with none and each call names its own."""

    def __init__(self, prompt: Callable[[TurnContext], str]) -> None:
        """`prompt` gives the whole system message."""
        self._prompt = prompt

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context = request.runtime.context
        prompt = SystemMessage(self._prompt(context))
        return await call(request.override(system_message=prompt, tools=list(context.declarations)))
