"""A task while somebody cares: its head, the newest events for readers, and whoever waits.

Runners and readers hold it, the registry only knows it weakly: a task at rest that nobody reads costs nothing.
`_publish` is the only way an event becomes visible. Refuses: events after the task came to rest.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from weakref import WeakValueDictionary

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_agent.clock import Clock
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.protocol.task_builder import GrowingTask
from fleetwright_agent.protocol.task_events import (
    RESTING,
    TERMINAL,
    Event,
    catch_up,
    fold,
    going_on,
    join,
    status_event,
)
from fleetwright_agent.server.tasks.size_limits import Room
from fleetwright_agent.storage.task_log import Accepted, AtRest, Claim, Key, Known, NotResting, Record, Stored, TaskLog

_TAIL = 512


class Live:
    def __init__(self, stored: Stored, *, log: TaskLog, clock: Clock, told: "Told", left: bool = False) -> None:
        self.owner = stored.owner
        self.taken_up = stored.taken_up
        """How many processes have taken it up, this one counted."""
        self.updated_ns = stored.updated_ns
        self._began_ns = stored.began_ns
        self._n = stored.n
        self._told = told
        self._seq = stored.seq
        self._asked = stored.seq
        self._head = GrowingTask(stored.task)
        self._log = log
        self._clock = clock
        self._busy = stored.busy
        self._sealed = not stored.busy
        self._left = left
        self._tail: deque[tuple[int, Event]] = deque(maxlen=_TAIL)
        self._unwritten: Record | None = None
        self._readers = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._room: Room | None = None

    @property
    def n(self) -> int:
        """Its number in the log."""
        return self._n

    @property
    def busy(self) -> bool:
        """A run works on it, or will."""
        return self._busy

    @property
    def task(self) -> Task:
        """The task as it is now; the caller's own copy."""
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
    def resting(self) -> bool:
        return self._head.state in RESTING and not self._busy

    def append(self, event: Event) -> None:
        """Visible at once, on disk soon. What comes after the task's end is dropped."""
        fitting = None if self._sealed else self._fit(event)
        if fitting is None:
            return
        record = Record(self._seq + 1, self._clock.now_ns(), going_on(fitting))
        self._log.append(self._n, record)
        self._publish(record)

    def leave(self, event: Event) -> None:
        """Tells that the process ends before the task does, and lets go of who waits; in the log it is running."""
        self.append(event)
        self._log.leave(self._n)
        self._sealed = self._left = True

    def let_go(self) -> None:
        """Lets go of who waits for what its caller may say: this process will not hear it."""
        self._left = True
        self._wake()

    def begin(self, *, again: bool) -> int:
        """The work for its newest message begins, or goes on; returns since when, in work.

        Args: `again` where another process has had it before.
        """
        if self._began_ns is None:
            self._began_ns = self._clock.now_ns()
            self._log.began(self._n, self._began_ns, again=again)
        return self._began_ns

    def worked_seconds(self, now_ns: int) -> float:
        """On its newest message, in whichever processes."""
        return 0.0 if self._began_ns is None else max(0, now_ns - self._began_ns) / 1e9

    async def resume(self, claim: Claim, message: Message) -> Accepted | Known | NotResting:
        """Goes on with an interrupted task: from the commit on it works, and nobody sees the question as open."""
        now = self._clock.now_ns()
        works = status_event(self.task_id, self.context_id, TaskState.TASK_STATE_WORKING, at_ns=now)
        records = (Record(self._seq + 1, now, message), Record(self._seq + 2, now, works))
        answer = await self._log.resume(claim, self.stored(), records)
        if isinstance(answer, Accepted):
            self._busy, self._sealed = True, False
            self._began_ns = None
            self._asked = records[-1].seq
            for record in records:
                self._publish(record)
        return answer

    def stored(self) -> Stored:
        return Stored(n=self._n, owner=self.owner, seq=self._seq, busy=self._busy, task=self._head.current())

    async def rest(self, events: Sequence[Event]) -> None:
        """The last events of a run, the final status among them; visible together, after the commit.

        Raises:
            LogUnusable: They are not on disk, and not visible.
        """
        self._sealed = True
        now = self._clock.now_ns()
        fitting = [event for event in map(self._fit, events) if event is not None]
        records = tuple(Record(self._seq + i, now, event) for i, event in enumerate(fitting, start=1))
        final = self._head.copy()
        for event in fitting:
            fold(final, event)
        pause = pause_of(final)
        await self._log.rest(self._n, records, final, expires_ns=pause.expires_ns if pause else None)
        self._busy = False
        for record in records:
            self._publish(record)

    def _fit(self, event: Event) -> Event | None:
        if self._room is None:
            self._room = Room(self._head.current())
        return self._room.fit(event)

    async def end(self, event: Event) -> bool:
        """Ends an interrupted task; nothing happens when it has been continued meanwhile. Visible after the commit."""
        final = self._head.copy()
        fold(final, event)
        record = Record(self._seq + 1, self._clock.now_ns(), event)
        ended = await self._log.end(self.stored(), record, final)
        if ended:
            self._publish(record)
        return ended

    def rest_unwritten(self, events: Sequence[Event]) -> None:
        """Ends the task for those who wait, where the log cannot be written; `settle` or a restart ends it for good."""
        self._sealed, self._busy = True, False
        now = self._clock.now_ns()
        fitting = [event for event in map(self._fit, events) if event is not None]
        records = [Record(self._seq + i, now, event) for i, event in enumerate(fitting, start=1)]
        self._unwritten = records[-1]
        for record in records:
            self._publish(record)

    @property
    def unwritten(self) -> bool:
        """It has ended for those who wait, and not in the log."""
        return self._unwritten is not None

    async def settle(self) -> None:
        """Writes the end that could not be written.

        Raises:
            LogUnusable: It still cannot be.
        """
        if self._unwritten is not None:
            # A commit may have reached the disk and have failed all the same: the end that is there counts.
            with suppress(AtRest):
                await self._log.rest(self._n, (self._unwritten,), self.task)
            self._unwritten = None

    async def rested(self) -> Task:
        """The task once it rests, or as it is when it is left."""
        while not (self.resting or self._left):
            await self._changed()
        return self.task

    async def moved(self) -> None:
        """Returns when something happened to it after what its caller said last."""
        while self._busy and self._seq == self._asked:
            await self._changed()

    async def read(self) -> AsyncGenerator[Task | Event, None]:
        """The task as it is, then every event until it rests or is left; pieces are joined for a slow reader."""
        cursor = self._seq
        self._readers += 1
        try:
            yield going_on(self.task) if self._busy else self.task
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
            # What a caller said is not repeated to its readers: in a stream it would read as the agent's answer.
            return join([event for seq, event in self._tail if seq > cursor and not isinstance(event, Message)])
        missed = catch_up(self._head.current())
        return [*map(going_on, missed)] if self._busy else missed

    def _publish(self, record: Record) -> None:
        self._head.fold(record.event)
        self._seq = record.seq
        self.updated_ns = record.at_ns
        if self._readers:
            self._tail.append((record.seq, record.event))
        self._wake()
        self._told(self)

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


Told = Callable[[Live], None]
"""Hears of every move of every task, right after it became visible; must not wait."""


def unheard(_: Live) -> None:
    """Where nobody wants to hear of them."""


class LiveTasks:
    """The live tasks of this process, found by owner and identifier."""

    def __init__(self, log: TaskLog, clock: Clock, told: Told = unheard) -> None:
        self._told = told
        self._log = log
        self._clock = clock
        self._known: WeakValueDictionary[tuple[str, str], Live] = WeakValueDictionary()
        self._leaving = False
        self._added = 0

    def let_go(self) -> None:
        """From now on nobody waits for what callers may say to tasks at rest; the process is about to end."""
        self._leaving = True
        for live in tuple(self._known.values()):
            if not live.busy:
                live.let_go()

    def known(self, owner: str, task_id: str) -> Live | None:
        return self._known.get((owner, task_id))

    def add(self, stored: Stored) -> Live:
        """One task has one live object, whoever asked for it first."""
        live = self._known.get((stored.owner, stored.task.id))
        if live is None:
            live = Live(stored, log=self._log, clock=self._clock, told=self._told, left=self._leaving)
            self._known[stored.owner, stored.task.id] = live
            self._added += 1
        return live

    def forget(self, keys: Iterable[Key]) -> None:
        """They are gone from the log: nobody finds them any more, whoever may still hold them."""
        for key in keys:
            self._known.pop((key.owner, key.task_id), None)

    def forget_ended(self, before_ns: int) -> None:
        """The same for those that the log forgets by their age."""
        old = [
            key for key, live in tuple(self._known.items()) if live.state in TERMINAL and live.updated_ns < before_ns
        ]
        self.forget(Key(*key) for key in old)

    async def find(self, owner: str, task_id: str) -> Live | None:
        if live := self._known.get((owner, task_id)):
            return live
        before = self._added
        stored = await self._log.find(owner, task_id)
        if stored is not None and stored.busy and self._added != before and (owner, task_id) not in self._known:
            # It may have been begun, worked on and ended while it was read: what has ended is read as ended.
            stored = await self._log.find(owner, task_id)
        return None if stored is None else self.add(stored)
