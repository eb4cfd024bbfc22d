"""A custom agent that rolls dice. It is written with the a2a-sdk and served by Fleetwright's runtime."""

import random
import re

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part

_ROLL = re.compile(r"(\d{1,2})d(\d{1,3})")


class Dice(AgentExecutor):
    """Rolls dice such as `2d6`, and asks for them if the message contains none."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        found = _ROLL.search(context.get_user_input())
        if found is None:
            await task.requires_input(task.new_agent_message([Part(text="Which dice? Say for example 2d6.")]))
            return
        await task.start_work()
        rolls = [random.randint(1, max(1, int(found[2]))) for _ in range(int(found[1]))]  # noqa: S311 - a game
        await task.add_artifact([Part(text=f"{found[0]}: {' + '.join(map(str, rolls))} = {sum(rolls)}")], name="rolls")
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: the server stops the running task."""
