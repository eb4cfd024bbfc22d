"""The loop of model and tools, as LangGraph builds it: the agent's own, and one for each of its sub-agents."""

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, cast

import langsmith
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel

from fleetwright_agent.storage.sqlite.conversations.checkpoints import ConversationSaver
from fleetwright_agent.turn.context import TurnContext, TurnState
from fleetwright_agent.turn.pipeline.composite import ModelLink, ToolRunner, TurnMiddleware
from fleetwright_agent.turn.providers.models import Chat


def build_loop(chat: Chat, *, links: Sequence[ModelLink], runner: ToolRunner, saver: ConversationSaver) -> Any:
    """A compiled graph; its tools are those of each turn's context."""
    # The loop asks for a thread twice at each call, to look whether LangSmith is told of it: a look takes no thread.
    langsmith.set_runtime_overrides(aio_to_thread=_here)
    return create_agent(
        cast("BaseChatModel", chat),
        middleware=[TurnMiddleware(links, runner)],
        state_schema=TurnState,
        context_schema=TurnContext,
        checkpointer=saver,
    )


async def _here(_: object, context: Context, func: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
    return context.run(func, *args, **named)
