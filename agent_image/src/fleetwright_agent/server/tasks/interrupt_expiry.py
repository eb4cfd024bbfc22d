"""Expiry of tasks that wait for people, and cleanup of the data kept for tasks that will not continue.

The task log stores the time until which each task may wait, so this module keeps no state in memory.
"""

from contextlib import suppress

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import TERMINAL
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog


class InterruptExpiry:
    def __init__(
        self,
        *,
        log: TaskLog,
        tasks: ActiveTasks,
        runs: TaskRunner,
        turns: TurnLoader,
        storage: Storage,
        activity: TaskActivity,
        clock: Clock,
    ) -> None:
        self._log = log
        self._tasks = tasks
        self._runs = runs
        self._turns = turns
        self._storage = storage
        self._activity = activity
        self._clock = clock

    async def expire(self) -> None:
        """End the tasks whose approval was not given in time, and record when the next wait expires.

        Raises:
            TaskLogUnavailable: The log cannot be read or written. The next call finds the tasks again.
        """
        for key in await self._log.expired(self._clock.now_ns()):
            live = await self._tasks.find(key.owner, key.task_id)
            if live is not None:
                await self._runs.expire(live)
        self._activity.expires_ns = await self._log.next_expiry_ns()

    async def tidy(self) -> None:
        """Delete data of tasks that will not continue.

        The data is the tasks' conversation threads, their usage records, and the open questions that peers asked them.
        """
        with suppress(MemoryUnusable):
            for aside in await self._storage.conversations.side_threads():
                if await self._is_over(aside.owner, aside.task_id):
                    await self._storage.conversations.forget_side_thread(aside)
            spending = self._storage.inflight
            for owner, task_id in await spending.tasks():
                if await self._is_over(owner, task_id):
                    await spending.forget(owner, task_id)
            asked = await self._storage.questions.all()
            for owner, task_id in {(each.place.owner, each.asked_in) for each in asked}:
                if await self._is_over(owner, task_id):
                    await self._turns.over(owner, task_id)

    async def _is_over(self, owner: str, task_id: str) -> bool:
        stored = await self._log.find(owner, task_id)
        return stored is None or stored.task.status.state in TERMINAL
