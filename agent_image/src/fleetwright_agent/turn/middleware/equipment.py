"""Outermost link: gives each model call the system prompt and the tools of this very turn."""

from langchain_core.messages import SystemMessage

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.layout import Layout
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.prompt import read_instructions, system_prompt


class EquipmentLink:
    """Tools come from servers that appear and vanish, so the graph is built with none and each call names its own."""

    def __init__(self, config: AgentConfig, layout: Layout) -> None:
        self._config = config
        self._layout = layout

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context = request.runtime.context
        instructions = read_instructions(self._config, self._layout)
        prompt = SystemMessage(system_prompt(self._config, instructions, context.unreachable))
        return await call(request.override(system_message=prompt, tools=list(context.declarations)))
