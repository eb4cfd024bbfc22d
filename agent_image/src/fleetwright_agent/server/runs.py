"""Runs: from an accepted message to a task at rest, whatever the work does.

One run at a time per owner and context, in the order of acceptance. Every run ends its task exactly once: by itself,
by its deadline, cancelled, or drained. Refuses: waiting for ever for work that ignores its cancellation.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from uuid import uuid4
from weakref import WeakValueDictionary

from a2a.types.a2a_pb2 import Task, TaskState, TaskStatusUpdateEvent
from google.protobuf.json_format import MessageToDict

from fleetwright_agent.extensions import COST, trace_of
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.events import RESTING, Event, agent_message, state_word, status_event
from fleetwright_agent.server.live import Live
from fleetwright_agent.server.log import LogUnusable
from fleetwright_agent.server.pauses import answered_pause, newest_message, pause_of
from fleetwright_agent.server.work import Emit, Executor, Job, Outcome, Pulse, Recovering, Work
from fleetwright_agent.turn.frames import TurnFailed
from fleetwright_agent.wires import attach

_logger = logging.getLogger(__name__)

CLEANUP_SECONDS: Final = 5.0
_FAILED = TaskState.TASK_STATE_FAILED
BROKE = Outcome(_FAILED, "The agent could not finish this task because of an internal error; try again.", "internal")
UNWRITTEN = Outcome(_FAILED, "The result of this task could not be stored; try again later.", "storage")
RESTARTED = Outcome(_FAILED, "The agent restarted while this task was running; send the message again.", "restart")
DRAINED = Outcome(_FAILED, "The agent was shut down before this task was done; send the message again.", "shutdown")
CANCELED = Outcome(TaskState.TASK_STATE_CANCELED, "The task was cancelled on request.", "canceled")


def too_long(seconds: float) -> Outcome:
    return Outcome(_FAILED, f"The turn did not finish within {seconds:g} seconds.", "deadline")


def unanswered(tool: str) -> Outcome:
    return Outcome(_FAILED, f"Nobody approved {tool} in time; it has not run.", "approval_expired")


def stalled(seconds: float, last: str) -> Outcome:
    return Outcome(_FAILED, f"Nothing happened for {seconds:g} seconds; the last was that {last}.", "stall")


def ending(task: Task, outcome: Outcome, *, at_ns: int) -> TaskStatusUpdateEvent:
    """The terminal status that tells the outcome; a task that waited has its cost there, for it gets no artifact."""
    message = agent_message(outcome.sentence, message_id=str(uuid4()))
    message.metadata["reason"] = outcome.reason
    pause = pause_of(task)
    if pause is not None and pause.cost is not None:
        attach(message, COST, {**pause.cost, "success": False})
    return status_event(task.id, task.context_id, outcome.state, at_ns=at_ns, message=message)


def _rests(events: Sequence[Event]) -> bool:
    last = events[-1] if events else None
    return isinstance(last, TaskStatusUpdateEvent) and last.status.state in RESTING


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a run may take, be silent, and need for its end; in seconds."""

    limit: float
    stall: float = 0
    """Nothing measures silence where this is zero."""
    cleanup: float = CLEANUP_SECONDS


class Run:
    def __init__(
        self,
        live: Live,
        work: Work,
        pulse: Pulse,
        *,
        turn: asyncio.Lock,
        gate: asyncio.Event,
        timing: Timing,
        clock: Clock,
    ) -> None:
        """Args: `turn` is the conversation's; the work begins when the `gate` is open."""
        self._gate = gate
        self._in_hand = False
        self._live = live
        self._work = work
        self._pulse = pulse
        self._turn = turn
        self._timing = timing
        self._clock = clock
        self._watching: asyncio.TimerHandle | None = None
        self._stopped: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def stop(self, outcome: Outcome) -> None:
        """Cancels the work; the first reason counts, and work that is done already keeps its result."""
        if not self._stopped.done():
            self._stopped.set_result(outcome)

    async def to_rest(self) -> None:
        working = asyncio.ensure_future(self._in_turn())
        either: set[asyncio.Future[Any]] = {working, self._stopped}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        events = await self._ended(working) if working.done() else await self._cut(working)
        if not _rests(events):
            _logger.error("work ended without an end", extra={"task": self._live.task_id})
            events = (*events, ending(self._live.task, BROKE, at_ns=self._clock.now_ns()))
        try:
            await self._live.rest(events)
        except LogUnusable:
            _logger.exception("a task's end could not be stored", extra={"task": self._live.task_id})
            self._live.rest_unwritten(ending(self._live.task, UNWRITTEN, at_ns=self._clock.now_ns()))

    async def _in_turn(self) -> Sequence[Event]:
        await self._turn.acquire()
        self._in_hand = True
        try:
            await self._gate.wait()
            return await self._timed()
        finally:
            self._let_go()

    async def _timed(self) -> Sequence[Event]:
        limit, stall = self._timing.limit, self._timing.stall
        self._pulse.beat()
        deadline = asyncio.get_running_loop().call_later(limit, self.stop, too_long(limit))
        self._watch(stall)
        try:
            return await self._work.run()
        finally:
            deadline.cancel()
            if self._watching is not None:
                self._watching.cancel()

    def _let_go(self) -> None:
        """The next message of the conversation may be worked on."""
        if self._in_hand:
            self._in_hand = False
            self._turn.release()

    def _watch(self, seconds: float) -> None:
        """Looks again when the silence could have become too long."""
        if not self._timing.stall:
            return
        silent = self._clock.monotonic() - self._pulse.at
        if silent >= self._timing.stall:
            self.stop(stalled(self._timing.stall, self._pulse.what))
            return
        left = min(seconds, self._timing.stall - silent)
        self._watching = asyncio.get_running_loop().call_later(left, self._watch, self._timing.stall)

    async def _ended(self, working: asyncio.Future[Sequence[Event]]) -> Sequence[Event]:
        try:
            return await working
        except TurnFailed as failure:
            _logger.warning("turn failed", extra={"task": self._live.task_id, "reason": failure.reason})
            return self._last_words(Outcome(_FAILED, failure.message, failure.reason))
        except (Exception, asyncio.CancelledError):
            # A cancellation that nobody here asked for comes from inside the work, and is its failure.
            _logger.exception("turn broke", extra={"task": self._live.task_id})
            return self._last_words(BROKE)

    async def _cut(self, working: asyncio.Future[Sequence[Event]]) -> Sequence[Event]:
        working.cancel()
        await asyncio.wait({working}, timeout=self._timing.cleanup)
        if not working.done():
            _logger.error("cancelled work does not end", extra={"task": self._live.task_id})
            self._let_go()
        elif not working.cancelled() and working.exception() is None:
            return working.result()
        return self._last_words(self._stopped.result())

    def _last_words(self, outcome: Outcome) -> Sequence[Event]:
        try:
            return self._work.cut(outcome)
        except Exception:
            _logger.exception("the end of a task could not be told in full", extra={"task": self._live.task_id})
            return (ending(self._live.task, outcome, at_ns=self._clock.now_ns()),)


class Runs:
    """The runs of this process."""

    def __init__(
        self,
        executor: Executor,
        *,
        limit: float,
        metrics: Metrics,
        clock: Clock,
        stall: float = 0,
        cleanup_seconds: float = CLEANUP_SECONDS,
    ) -> None:
        self._executor = executor
        self._timing = Timing(limit, stall, cleanup_seconds)
        self._metrics = metrics
        self._clock = clock
        self._running: dict[asyncio.Task[None], tuple[Live, Run]] = {}
        # Held until the log has them: the log would tell that they run, for nobody knows better then.
        self._unwritten: set[Live] = set()
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        for state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
            metrics.tasks.labels(state_word(state)).set_function(partial(self._count, state))

    def __len__(self) -> int:
        return len(self._running)

    def take_up(self, live: Live, job: Job, *, then: Callable[[], None]) -> Callable[[], None]:
        """From now on it has its place in its conversation and can be cancelled; what is returned lets it begin.

        Args:
            then: Called when the task is at rest.
        """
        gate = asyncio.Event()
        self._run(live, job, self._executor.begin, gate, then)
        return gate.set

    def _run(
        self,
        live: Live,
        job: Job,
        begin: Callable[[Job, Emit], Work | None],
        gate: asyncio.Event,
        then: Callable[[], None] | None = None,
    ) -> bool:
        pulse = Pulse(self._clock.monotonic)

        def emit(event: Event) -> None:
            pulse.beat()
            live.append(event)

        work = begin(replace(job, pulse=pulse), emit)
        if work is None:
            return False
        turn = self._turns.setdefault((job.owner, job.context_id), asyncio.Lock())
        run = Run(live, work, pulse, turn=turn, gate=gate, timing=self._timing, clock=self._clock)
        task = asyncio.create_task(self._observed(live, run, trace_of(job.metadata)), name=f"run {job.task_id}")
        self._running[task] = (live, run)
        task.add_done_callback(self._running.pop)
        if then is not None:
            task.add_done_callback(lambda _: then())
        return True

    def stop(self, live: Live, outcome: Outcome) -> None:
        for running, run in self._running.values():
            if running is live:
                run.stop(outcome)

    async def cancel(self, live: Live) -> None:
        """Stops the run, or ends a task that waits for its caller."""
        if live.busy or not await live.end(ending(live.task, CANCELED, at_ns=self._clock.now_ns())):
            self.stop(live, CANCELED)

    async def expire(self, live: Live) -> None:
        """Ends a task whose approval nobody gave in time."""
        now, pause = self._clock.now_ns(), pause_of(live.task)
        if pause is None or not pause.expired(now):
            return
        if await live.end(ending(live.task, unanswered(pause.tool), at_ns=now)):
            _logger.info("an approval has expired", extra={"task": live.task_id, "tool": pause.tool})

    async def recover(self, live: Live) -> None:
        """Takes up a task whose run died with the process before this one, or ends it where nobody can."""
        job = _interrupted(live)
        executor = self._executor
        gate = asyncio.Event()
        gate.set()
        if job is None or not isinstance(executor, Recovering) or not self._run(live, job, executor.recover, gate):
            await live.rest((ending(live.task, RESTARTED, at_ns=self._clock.now_ns()),))

    async def settle(self) -> None:
        """Writes the ends that could not be written when they happened.

        Raises:
            LogUnusable: They still cannot be.
        """
        for live in tuple(self._unwritten):
            await live.settle()
            self._unwritten.discard(live)

    async def drain(self, seconds: float) -> None:
        """Lets running tasks finish for a while, then ends them; returns when all are at rest."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)
        for _, run in self._running.values():
            run.stop(DRAINED)
        if self._running:
            await asyncio.wait(set(self._running))

    async def _observed(self, live: Live, run: Run, trace: Mapping[str, str]) -> None:
        started = self._clock.monotonic()
        await run.to_rest()
        if live.unwritten:
            self._unwritten.add(live)
        seconds = self._clock.monotonic() - started
        self._metrics.task_seconds.labels(state_word(live.state)).observe(seconds)
        _logger.info("task rests", extra={"task": live.task_id, "state": state_word(live.state), **trace})

    def _count(self, state: TaskState) -> int:
        return sum(1 for live, _ in tuple(self._running.values()) if live.state == state)


def _interrupted(live: Live) -> Job | None:
    """What was being worked on, as the task itself tells it."""
    task = live.task
    message = newest_message(task)
    if message is None:
        return None
    return Job(
        owner=live.owner,
        task_id=task.id,
        context_id=task.context_id,
        message=message,
        metadata=MessageToDict(message.metadata),
        former=task if (pause := answered_pause(task)) else None,
        pause=pause,
    )
