"""Compiles the LangGraph loop of model calls and tool calls: one for the agent, and one for each sub-agent."""

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, cast

import langsmith
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel

from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.turn.context import TurnContext, TurnState
from fleetwright_agent.turn.pipeline.composite import ModelLink, ToolRunner, TurnMiddleware
from fleetwright_agent.turn.providers.factory import Chat


def build_loop(chat: Chat, *, links: Sequence[ModelLink], runner: ToolRunner, saver: ConversationSaver) -> Any:
    """Return a compiled graph. Its tools come from the context of each turn."""
    # LangSmith checks in a separate thread, twice for each call, whether tracing is on. Run the check in this thread.
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
