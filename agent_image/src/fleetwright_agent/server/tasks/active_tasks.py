"""The registry of the tasks in the memory of this process.

Runs and readers hold strong references to tasks. The registry holds weak references, so a task at rest without readers
uses no memory.
"""

from collections.abc import Callable, Iterable
from weakref import WeakValueDictionary

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import (
    TERMINAL,
)
from fleetwright_agent.server.tasks.active_task import ActiveTask, PublishHook, ignore_event
from fleetwright_agent.storage.tasks.records import Key, StoredTask
from fleetwright_agent.storage.tasks.task_log import TaskStore


class ActiveTasks:
    """The tasks in the memory of this process, by owner and task id."""

    def __init__(
        self,
        log: TaskStore,
        clock: Clock,
        on_event: PublishHook = ignore_event,
        on_forget: Callable[[Key], None] = lambda _: None,
    ) -> None:
        """Args: `on_forget` is called for each task that was deleted from the log."""
        self._on_event = on_event
        self._on_forget = on_forget
        self._log = log
        self._clock = clock
        self._known: WeakValueDictionary[tuple[str, str], ActiveTask] = WeakValueDictionary()
        self._leaving = False
        self._added = 0

    def let_go(self) -> None:
        """Release all current and future readers of tasks at rest, because the process is about to end."""
        self._leaving = True
        for live in tuple(self._known.values()):
            if not live.busy:
                live.let_go()

    def known(self, owner: str, task_id: str) -> ActiveTask | None:
        return self._known.get((owner, task_id))

    def add(self, stored: StoredTask) -> ActiveTask:
        """Return the single object for this task, and create it if necessary."""
        live = self._known.get((stored.owner, stored.task.id))
        if live is None:
            live = ActiveTask(stored, log=self._log, clock=self._clock, on_event=self._on_event, left=self._leaving)
            self._known[stored.owner, stored.task.id] = live
            self._added += 1
        return live

    def forget(self, keys: Iterable[Key]) -> None:
        """Remove tasks that were deleted from the log. Readers of these tasks keep the objects."""
        for key in keys:
            self._known.pop((key.owner, key.task_id), None)
            self._on_forget(key)

    def forget_ended(self, before_ns: int) -> None:
        """Remove ended tasks that the log deletes because of their age."""
        old = [
            key for key, live in tuple(self._known.items()) if live.state in TERMINAL and live.updated_ns < before_ns
        ]
        self.forget(Key(*key) for key in old)

    async def find(self, owner: str, task_id: str) -> ActiveTask | None:
        if live := self._known.get((owner, task_id)):
            return live
        before = self._added
        stored = await self._log.find(owner, task_id)
        if stored is not None and stored.busy and self._added != before and (owner, task_id) not in self._known:
            # A run may have started and ended during the read. A second read then returns the ended task.
            stored = await self._log.find(owner, task_id)
        return None if stored is None else self.add(stored)
