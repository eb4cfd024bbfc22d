"""Adds the system prompt and the tools of the current turn to each model call."""

from collections.abc import Callable

from langchain_core.messages import SystemMessage

from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request


class SystemPromptLink:
    """The graph is compiled without tools. Each model call declares its tools, because MCP servers come and go."""

    def __init__(self, prompt: Callable[[TurnContext], str]) -> None:
        """Args: `prompt` returns the complete system message."""
        self._prompt = prompt

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context = request.runtime.context
        prompt = SystemMessage(self._prompt(context))
        return await call(request.override(system_message=prompt, tools=list(context.declarations)))
