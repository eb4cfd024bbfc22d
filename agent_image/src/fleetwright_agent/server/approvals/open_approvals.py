"""The index of open approvals: the tasks of all callers that wait for a person to approve a tool call.

The first read of the operator builds the index from the task log. After that, the events of tasks keep the index
current. The index is only a cache: the acceptance of a decision reads the task itself.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.protocol.interrupts import TaskInterrupt, pause_of
from fleetwright_agent.server.approvals.listing import listed_approval
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.storage.tasks.records import Key
from fleetwright_agent.storage.tasks.task_log import TaskLog

MOST_LISTED: Final = 100


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """The oldest open approvals, and the version of the whole index."""

    version: str
    open: tuple[dict[str, Any], ...]


class OpenApprovals:
    def __init__(self, log: TaskLog, *, redact: Callable[[Any], Any]) -> None:
        """Args: `redact` replaces the secrets in a text or in a JSON value."""
        self._log = log
        self._redact = redact
        self._process = uuid4().hex
        self._changes = 0
        self._open: dict[Key, dict[str, Any]] = {}
        self._touched: set[Key] | None = None
        """The tasks that had events while the index was loaded; None before the first load begins."""
        self._loaded = False
        self._loading = asyncio.Lock()
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False

    def on_event(self, live: ActiveTask) -> None:
        """Update the index after an event of a task. Before the first read of the operator, events are ignored."""
        if self._touched is None:
            return
        key = Key(live.owner, live.task_id)
        if not self._loaded:
            self._touched.add(key)
        waits = live.state == TaskState.TASK_STATE_INPUT_REQUIRED and not live.busy
        self._put(key, live.task if waits else None)

    def forget(self, key: Key) -> None:
        """Drop a task that was deleted from the log."""
        if self._touched is not None:
            self._put(key, None)

    def close(self) -> None:
        """Answer all waiting reads, because the process is about to end."""
        self._closed = True
        self._wake()

    async def page(self, after: str | None, *, seconds: float) -> ApprovalPage:
        """Return the open approvals: at once if their version is not `after`, otherwise at the next change.

        Args:
            seconds: The longest wait for a change.

        Raises:
            TaskLogUnavailable: The log cannot be read.
        """
        await self._load()
        if after == self._version and not self._closed:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await future
            finally:
                self._waiting.discard(future)
        oldest = sorted(self._open.values(), key=lambda each: (each["createdAt"], each["task"]))
        return ApprovalPage(self._version, tuple(oldest[:MOST_LISTED]))

    @property
    def _version(self) -> str:
        return f"{self._process}-{self._changes}"

    async def _load(self) -> None:
        async with self._loading:
            if self._loaded:
                return
            touched = self._touched = set() if self._touched is None else self._touched
            for key in await self._log.waiting():
                stored = await self._log.find(key.owner, key.task_id)
                # If the task had an event meanwhile, the index already has a newer state than `stored`.
                if stored is not None and not stored.busy and key not in touched:
                    self._put(key, stored.task)
            self._loaded = True
            touched.clear()

    def _put(self, key: Key, task: Task | None) -> None:
        pause = None if task is None else approval_of(task)
        if task is None or pause is None:
            if self._open.pop(key, None) is None:
                return
        else:
            entry = listed_approval(key.owner, task, pause, redact=self._redact)
            if self._open.get(key) == entry:
                return
            self._open[key] = entry
        self._changes += 1
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)


def approval_of(task: Task) -> TaskInterrupt | None:
    """Return the approval that the task waits for, or None.

    An a2a-sdk executor may write any values into its question, so the id and the tool are checked.
    """
    pause = pause_of(task) if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED else None
    if pause is None or pause.kind is not InterruptKind.APPROVAL:
        return None
    names: tuple[Any, ...] = (pause.identity, pause.tool)
    return pause if all(isinstance(name, str) and name for name in names) else None
