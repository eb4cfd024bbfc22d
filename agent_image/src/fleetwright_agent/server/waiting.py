"""Tasks that wait for people, over time: which have waited too long, and what is kept for those that wait no more.

However many wait, a look costs what has changed since the one before. Refuses: deciding what a pause is.
"""

from contextlib import suppress
from typing import Final

from a2a.types.a2a_pb2 import Task

from fleetwright_agent.memory import threads
from fleetwright_agent.memory.database import Database, MemoryUnusable
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.events import TERMINAL
from fleetwright_agent.server.live import LiveTasks
from fleetwright_agent.server.log import TaskLog
from fleetwright_agent.server.pauses import pause_of
from fleetwright_agent.server.runs import Runs

# A commit lands a little after the moment that its record bears.
_OVERLAP_NS: Final = 30_000_000_000


class Waiting:
    def __init__(self, *, log: TaskLog, tasks: LiveTasks, runs: Runs, conversations: Database, clock: Clock) -> None:
        self._log = log
        self._tasks = tasks
        self._runs = runs
        self._conversations = conversations
        self._clock = clock
        self._looked_ns = 0
        self._ends: dict[tuple[str, str], int] = {}

    async def expire(self) -> None:
        """Ends tasks whose approval nobody gave in time.

        Raises:
            LogUnusable: The log cannot be read or written; the next look finds them again.
        """
        now = self._clock.now_ns()
        for paused in await self._log.paused(self._looked_ns - _OVERLAP_NS):
            pause = pause_of(Task(status=paused.status))
            if pause is not None and pause.expires_ns is not None:
                self._ends[paused.owner, paused.task_id] = pause.expires_ns
        self._looked_ns = now
        for key in [key for key, end in self._ends.items() if end <= now]:
            live = await self._tasks.find(*key)
            if live is not None:
                await self._runs.expire(live)
            del self._ends[key]

    async def tidy(self) -> None:
        """Drops what was set aside for tasks that will not go on."""
        with suppress(MemoryUnusable):
            for aside in await threads.asides(self._conversations):
                stored = await self._log.find(aside.owner, aside.task_id)
                if stored is None or stored.task.status.state in TERMINAL:
                    await threads.forget(self._conversations, aside)
