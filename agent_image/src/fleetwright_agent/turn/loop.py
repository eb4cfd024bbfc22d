"""The loop of model and tools, as LangGraph builds it: the agent's own, and one for each of its sub-agents."""

from collections.abc import Sequence
from typing import Any, cast

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel

from fleetwright_agent.memory.checkpoints import ConversationSaver
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.middleware.composite import ModelLink, ToolRunner, TurnMiddleware
from fleetwright_agent.turn.models import Chat


def build_loop(chat: Chat, *, links: Sequence[ModelLink], runner: ToolRunner, saver: ConversationSaver) -> Any:
    """A compiled graph; its tools are those of each turn's context."""
    return create_agent(
        cast("BaseChatModel", chat),
        middleware=[TurnMiddleware(links, runner)],
        context_schema=TurnContext,
        checkpointer=saver,
    )
