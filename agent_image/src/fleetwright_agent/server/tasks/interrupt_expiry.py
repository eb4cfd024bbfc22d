"""Expiry of waits for people, and cleanup of the data kept for tasks that will not continue.

The task log stores the time until which each task may wait, so this module keeps no state in memory.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import TERMINAL
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.tools.peers.call_records import end_interrupted


class InterruptExpiry:
    def __init__(
        self,
        *,
        log: TaskLog,
        tasks: ActiveTasks,
        expire: Callable[[ActiveTask], Awaitable[None]],
        turns: TurnLoader,
        storage: Storage,
        activity: TaskActivity,
        clock: Clock,
    ) -> None:
        """Args: `expire` continues or ends a task whose wait has expired."""
        self._log = log
        self._tasks = tasks
        self._expire = expire
        self._turns = turns
        self._storage = storage
        self._activity = activity
        self._clock = clock

    async def expire(self, *, is_ready: Callable[[], bool]) -> None:
        """Deny the approvals that were not given in time, and record when the next wait expires.

        Args:
            is_ready: Returns False if the agent should begin no turn. The next call then denies the other approvals.

        Raises:
            TaskLogUnavailable: The log cannot be read or written. The next call finds the tasks again.
        """
        for key in await self._log.expired(self._clock.now_ns()) if is_ready() else ():
            if not is_ready():
                break
            live = await self._tasks.find(key.owner, key.task_id)
            if live is not None:
                await self._expire(live)
        self._activity.expires_ns = await self._log.next_expiry_ns()

    async def tidy(self) -> None:
        """Delete data of tasks that will not continue.

        The data is the tasks' conversation threads, their usage records, and the open questions that peers asked them.
        It also marks the calls to peers that a killed process left unfinished as failed.
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
            calls = self._storage.peer_calls
            for owner, task_id in {(call.owner, call.task_id) for call in await calls.of() if call.ended_at is None}:
                if await self._is_over(owner, task_id):
                    await end_interrupted(owner, task_id, calls, self._storage.delegated, at=self._clock.now())

    async def _is_over(self, owner: str, task_id: str) -> bool:
        stored = await self._log.find(owner, task_id)
        return stored is None or stored.task.status.state in TERMINAL
