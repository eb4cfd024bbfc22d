"""The executor that both servers of the benchmark run. The message steers it.

It depends on the a2a-sdk alone. The commands are `reply`, `task`, `chunks <number> <a second>`, `park` and `hang`.
"""

import asyncio

from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part, Role


class Steered(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        word, *numbers = context.get_user_input().split()
        if word == "reply":
            await event_queue.enqueue_event(new_text_message("You said: reply", role=Role.ROLE_AGENT))
            return
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if word == "park":
            await task.requires_input(task.new_agent_message([Part(text="Go on?")]))
            return
        await task.start_work()
        if word == "hang":
            await asyncio.Event().wait()
        if word == "chunks":
            await _chunks(task, *map(int, numbers))
        else:
            await task.add_artifact([Part(text="You said: task")], name="answer")
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def _chunks(task: TaskUpdater, number: int, a_second: int) -> None:
    """Send the chunks at a constant rate. A late chunk does not delay the next one."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for place in range(number):
        await asyncio.sleep(max(0.0, began + place / a_second - loop.time()))
        await task.add_artifact([Part(text="token ")], artifact_id="answer", append=place > 0)
