"""Executors written for the a2a-sdk."""

from collections.abc import Callable
from typing import Any

from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.types import (
    Role,
)


class ScriptedExecutor(AgentExecutor):
    """An executor that runs a function of the context and the queue, and counts cancellations."""

    def __init__(self, script: Callable[[RequestContext, EventQueue], Any]) -> None:
        self._script = script
        self.runs = 0
        self.cancelled = 0

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.runs += 1
        await self._script(context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled += 1


async def reply_with_greeting(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(new_text_message(f"Hello, {context.get_user_input()}.", role=Role.ROLE_AGENT))
