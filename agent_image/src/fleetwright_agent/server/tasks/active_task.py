"""A task in memory while a run works on it or a caller reads it: its current state, recent events, and waiters.

A task is at rest if it has ended, or if it is interrupted and waits for its caller. A task at rest accepts no further
events. `_publish` is the only place that makes an event visible.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_builder import GrowingTask
from fleetwright_a2a.task_events import (
    RESTING,
    Event,
    catch_up,
    fold,
    join,
    mark_going_on,
    state_word,
    status_event,
)
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.server.tasks.size_limits import TaskSize
from fleetwright_agent.storage.errors import TaskNotRunning
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    DuplicateClaim,
    EventRecord,
    MessageNotAccepted,
    StoredTask,
)
from fleetwright_agent.storage.tasks.task_log import TaskStore

_TAIL = 512


PublishHook = Callable[["ActiveTask"], None]
"""A callback for every published event of every task. It must not block."""


class ActiveTask:
    def __init__(
        self, stored: StoredTask, *, log: TaskStore, clock: Clock, on_event: PublishHook, left: bool = False
    ) -> None:
        self.owner = stored.owner
        self.taken_up = stored.taken_up
        """How often in a row a process took over the task. An orderly handover to the next process resets the count."""
        self.updated_ns = stored.updated_ns
        self._began_ns = stored.began_ns
        self._ownership = stored.ownership
        self._on_event = on_event
        self._seq = stored.seq
        self._asked = stored.seq
        self._head = GrowingTask(stored.task)
        self._log = log
        self._clock = clock
        self._busy = stored.busy
        self._sealed = not stored.busy
        self._left = left
        self._tail: deque[tuple[int, Event]] = deque(maxlen=_TAIL)
        self._unwritten: EventRecord | None = None
        self._readers = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._room: TaskSize | None = None

    @property
    def n(self) -> int:
        """The number of the task in the log."""
        return self._ownership.n

    @property
    def busy(self) -> bool:
        """True while a run works on the task or is queued for it."""
        return self._busy

    @property
    def task(self) -> Task:
        """A copy of the task as it is now."""
        return self._head.copy()

    @property
    def task_id(self) -> str:
        return self._head.task_id

    @property
    def context_id(self) -> str:
        return self._head.context_id

    @property
    def state(self) -> TaskState:
        return self._head.state

    @property
    def log_fields(self) -> dict[str, str]:
        """The fields of a log line about the state of the task."""
        return {"task": self.task_id, "context": self.context_id, "state": state_word(self.state)}

    @property
    def resting(self) -> bool:
        return self._head.state in RESTING and not self._busy

    def append(self, event: Event, *, waits: bool = False) -> None:
        """Publish an event at once and write it to disk soon. Events after the end of the task are dropped.

        Args:
            waits: True if the work has not begun. For `moved`, the task has then not changed.
        """
        fitting = None if self._sealed else self._size().fit(event)
        if fitting is None:
            return
        if waits and self._asked == self._seq:
            self._asked += 1
        record = EventRecord(self._seq + 1, self._clock.now_ns(), mark_going_on(fitting))
        self._log.append(self._ownership, record)
        self._publish(record)

    def leave(self, event: Event) -> None:
        """Publish that the process ends before the task, and release the waiters. In the log, the task stays busy."""
        self.append(event)
        self._log.leave(self._ownership)
        self._sealed = self._left = True

    def let_go(self) -> None:
        """Release readers that wait for the caller's next message, because this process will not receive it."""
        self._left = True
        self._wake()

    def begin(self, *, again: bool) -> int:
        """Start or continue the work on the newest message, and return the start time in nanoseconds.

        The start time is shifted by the time between two processes, which does not count.
        Args:
            again: True if an earlier process worked on the message.
        """
        if self._began_ns is None:
            self._began_ns = self._clock.now_ns()
            self._log.began(self._ownership, self._began_ns, again=again)
        return self._began_ns

    async def take_up(self) -> bool:
        """Make this process the owner of a task that another process left busy.

        Return false if the task is at rest, or if another process has taken the task over.
        """
        taken = await self._log.take_up(self.stored())
        if taken is None:
            return False
        self._ownership, self.taken_up, self._began_ns = taken.ownership, taken.taken_up, taken.began_ns
        return True

    def worked_seconds(self, now_ns: int) -> float:
        """Return the seconds of work on the newest message, across processes."""
        return 0.0 if self._began_ns is None else max(0, now_ns - self._began_ns) / 1e9

    async def resume(
        self, claim: Claim, message: Message, delegation: Delegation | None = None
    ) -> AcceptedClaim | DuplicateClaim | MessageNotAccepted:
        """Continue an interrupted task with the caller's message. After the commit, the task's state is working."""
        now = self._clock.now_ns()
        works = status_event(self.task_id, self.context_id, TaskState.TASK_STATE_WORKING, at_ns=now)
        records = (EventRecord(self._seq + 1, now, message), EventRecord(self._seq + 2, now, works))
        answer = await self._log.resume(claim, self.stored(), records, delegation=delegation)
        if isinstance(answer, AcceptedClaim):
            self._ownership = answer.ownership
            self._busy, self._sealed = True, False
            self._began_ns = None
            self._room = None  # The history has become longer, and the log has dropped the messages that passed.
            self._asked = records[-1].seq
            for record in records:
                self._publish(record)
        return answer

    def stored(self) -> StoredTask:
        n, epoch, task = self.n, self._ownership.epoch, self._head.current()
        return StoredTask(n=n, owner=self.owner, seq=self._seq, busy=self._busy, task=task, epoch=epoch)

    async def rest(self, events: Sequence[Event]) -> None:
        """Write the last events of a run, including the final status, and publish them together after the commit.

        Raises:
            TaskLogUnavailable: The events are neither on disk nor published.
        """
        self._sealed = True
        now = self._clock.now_ns()
        fitting = self._fit_last(events)
        records = tuple(EventRecord(self._seq + i, now, event) for i, event in enumerate(fitting, start=1))
        final = self._head.copy()
        for event in fitting:
            fold(final, event)
        pause = pause_of(final)
        await self._log.rest(self._ownership, records, final, expires_ns=pause.expires_ns if pause else None)
        self._busy = False
        for record in records:
            self._publish(record)

    def _fit_last(self, events: Sequence[Event]) -> list[Event]:
        """Return the events with which the task comes to rest, truncated to the space that is left."""
        room = self._size()
        return [fitting for event in events if (fitting := room.fit(event, is_last=True)) is not None]

    def _size(self) -> TaskSize:
        if self._room is None:
            self._room = TaskSize(self._head.current())
        return self._room

    async def end(self, event: Event) -> bool:
        """End an interrupted task, and publish the end after the commit.

        If the task was continued in the meantime, change nothing and return false.
        """
        final = self._head.copy()
        fold(final, event)
        record = EventRecord(self._seq + 1, self._clock.now_ns(), event)
        ended = await self._log.end(self.stored(), record, final)
        if ended:
            self._publish(record)
        return ended

    def rest_unwritten(self, events: Sequence[Event]) -> None:
        """End the task in memory only, because the log cannot be written. `settle` or a restart ends it in the log."""
        self._sealed, self._busy = True, False
        now = self._clock.now_ns()
        fitting = self._fit_last(events)
        records = [EventRecord(self._seq + i, now, event) for i, event in enumerate(fitting, start=1)]
        self._unwritten = records[-1]
        for record in records:
            self._publish(record)

    @property
    def unwritten(self) -> bool:
        """True if the task has ended in memory but not in the log."""
        return self._unwritten is not None

    async def settle(self) -> None:
        """Write the end of the task, which could not be written before.

        Raises:
            TaskLogUnavailable: The log still cannot be written.
        """
        if self._unwritten is not None:
            # A commit that reported an error may still be on disk. In that case, the end on disk is kept.
            with suppress(TaskNotRunning):
                await self._log.rest(self._ownership, (self._unwritten,), self.task)
            self._unwritten = None

    async def rested(self) -> Task:
        """Wait until the task is at rest or is left to the next process, and return the task."""
        while not (self.resting or self._left):
            await self._changed()
        return self.task

    async def moved(self) -> None:
        """Wait until the task has changed since the caller's last message, or until no run works on the task."""
        while self._busy and self._seq == self._asked:
            await self._changed()

    async def read(self) -> AsyncGenerator[Task | Event, None]:
        """Yield the current task, then its events until the task is at rest or is left to the next process.

        A slow reader gets several consecutive pieces of an artifact as one event.
        """
        cursor = self._seq
        self._readers += 1
        try:
            yield mark_going_on(self.task) if self._busy else self.task
            ended = self._left
            while not ended:
                if cursor == self._seq:
                    if self._left:
                        return
                    await self._changed()
                    continue
                events, cursor, ended = self._since(cursor), self._seq, self.resting or self._left
                for event in events:
                    yield event
        finally:
            self._readers -= 1
            if not self._readers:
                self._tail.clear()

    def _since(self, cursor: int) -> list[Event]:
        if self._tail and self._tail[0][0] <= cursor + 1:
            # Messages of the caller are left out, because clients would take them for the agent's answer.
            return join([event for seq, event in self._tail if seq > cursor and not isinstance(event, Message)])
        missed = catch_up(self._head.current())
        return [*map(mark_going_on, missed)] if self._busy else missed

    def _publish(self, record: EventRecord) -> None:
        self._head.fold(record.event)
        self._seq = record.seq
        self.updated_ns = record.at_ns
        if self._readers:
            self._tail.append((record.seq, record.event))
        self._wake()
        self._on_event(self)

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    async def _changed(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


def ignore_event(_: ActiveTask) -> None:
    """Ignore the event."""
