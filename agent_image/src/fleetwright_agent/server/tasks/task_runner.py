"""The runs of this process. The queue of turns decides when each of them may begin.

This module does not know how a single run ends.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from a2a.types.a2a_pb2 import Role, TaskState
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extensions import labels_of, trace_of
from fleetwright_a2a.task_events import Event, state_word
from fleetwright_agent.protocol.interrupts import answered_pause, newest_message
from fleetwright_agent.protocol.termination_reasons import (
    CANCELED,
    DRAINED,
    GIVEN_UP,
    RESTARTED,
    Termination,
    terminal_status,
)
from fleetwright_agent.server.executors.port import (
    Emit,
    Executor,
    Heartbeat,
    RecoverableExecutor,
    ReportsLostWork,
    TaskJob,
    TaskWork,
)
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.priorities import priority_of
from fleetwright_agent.server.tasks.task_run import CLEANUP_SECONDS, RunTimeouts, TaskRun
from fleetwright_agent.server.tasks.turn_queue import TurnQueue, waiting_status
from fleetwright_agent.storage.errors import TaskLogUnavailable, TaskNotRunning
from fleetwright_agent.telemetry.metrics import Metrics

_logger = logging.getLogger(__name__)
MOST_TAKEN_UP: Final = 3
"""The maximum number of processes in a row that may take over a task. The next process ends the task instead."""


async def release_nothing(_owner: str, _task_id: str) -> None:
    """Do nothing, for executors that keep no state of a task."""


class TaskRunner:
    """The runs of this process."""

    def __init__(
        self,
        executor: Executor,
        *,
        limit: float,
        most: int,
        metrics: Metrics,
        clock: Clock,
        stall: float = 0,
        cleanup_seconds: float = CLEANUP_SECONDS,
        outlived: bool = True,
        high_callers: Collection[str] = (),
        release: Callable[[str, str], Awaitable[None]] = release_nothing,
    ) -> None:
        """
        Args:
            most: The maximum number of turns that run at once.
            high_callers: The callers whose messages may have high priority.
            release: Called with the owner and the id of a task that was cancelled while no run worked on it. It must
                not raise.
            outlived: True if the stored state from which the executor resumes survives the process.
        """
        self._executor = executor
        self._timing = RunTimeouts(limit, stall, cleanup_seconds)
        self._goes_on = outlived and isinstance(executor, RecoverableExecutor) and executor.recovers
        self._metrics = metrics
        self._clock = clock
        self._running: dict[asyncio.Task[None], tuple[ActiveTask, TaskRun]] = {}
        # Strong references to tasks until the log is written. Without them, a read of the log would return a busy task.
        self._unwritten: set[ActiveTask] = set()
        self._ending: set[ActiveTask] = set()
        self._queue = TurnQueue(most)
        self._high_callers = frozenset(high_callers)
        self._release = release
        metrics.turns.labels("running").set_function(lambda: self._queue.running)
        metrics.turns.labels("waiting").set_function(lambda: self._queue.waiting)
        for state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING):
            metrics.tasks.labels(state_word(state)).set_function(partial(self._count, state))

    def __len__(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of runs that wait for their turn. Any thread may read it."""
        return self._queue.waiting

    @property
    def current_task(self) -> str | None:
        """The id of the oldest task whose turn runs; None if no turn runs. Any thread may read it."""
        runs = tuple(self._running.values())
        return next((live.task_id for live, run in runs if not run.waits), None)

    def take_up(self, live: ActiveTask, job: TaskJob, *, then: Callable[[], None]) -> Callable[[], None]:
        """Queue a run, and return a function that lets it begin. A queued run can be cancelled.

        Args:
            then: Called when the run is over.
        """
        gate = asyncio.Event()
        self._run(live, job, self._executor.begin, gate, then)
        return gate.set

    def _run(
        self,
        live: ActiveTask,
        job: TaskJob,
        begin: Callable[[TaskJob, Emit], TaskWork | None],
        gate: asyncio.Event,
        then: Callable[[], None] | None = None,
        *,
        again: bool = False,
    ) -> bool:
        pulse = Heartbeat(self._clock.monotonic)

        def emit(event: Event) -> None:
            pulse.beat()
            live.append(event)

        work = begin(replace(job, pulse=pulse), emit)
        if work is None:
            return False
        priority = priority_of(job.owner, job.first_metadata, high_callers=self._high_callers)
        place = (job.owner, job.context_id)
        ticket = self._queue.enter(place, partial(self._tell_position, live), priority=priority)
        run = TaskRun(live, work, pulse, ticket=ticket, gate=gate, timing=self._timing, clock=self._clock, again=again)
        _log_start(live, job, again=again)
        task = asyncio.create_task(self._observed(live, run, _told_of(job)), name=f"run {job.task_id}")
        self._running[task] = (live, run)
        task.add_done_callback(self._running.pop)
        if then is not None:
            task.add_done_callback(lambda _: then())
        return True

    def _tell_position(self, live: ActiveTask, position: int) -> None:
        now = self._clock.now_ns()
        live.append(waiting_status(live.task_id, live.context_id, live.state, position=position, at_ns=now), waits=True)

    def stop(self, live: ActiveTask, outcome: Termination) -> None:
        if run := self._run_of(live):
            run.stop(outcome)

    async def cancel(self, live: ActiveTask) -> None:
        """Stop the run of a task, or end a task that waits for its caller or for recovery."""
        if live.busy and self._run_of(live) is None:
            await self._end(live, CANCELED)
            await self._release(live.owner, live.task_id)
        elif live.busy or not await live.end(terminal_status(live.task, CANCELED, at_ns=self._clock.now_ns())):
            self.stop(live, CANCELED)
        else:
            _logger.info("task rests", extra=live.log_fields)
            await self._release(live.owner, live.task_id)

    async def over(self, live: ActiveTask) -> None:
        """Wait until no run works on the task."""
        if working := [running for running, (held, _) in self._running.items() if held is live]:
            await asyncio.wait(working)

    async def _end(self, live: ActiveTask, outcome: Termination) -> None:
        """End a task without a run, and keep `recover` from starting one in the meantime."""
        self._ending.add(live)
        try:
            # The second of two concurrent cancellations finds the task at rest.
            with suppress(TaskNotRunning):
                await live.rest(await self._build_last_events(live, outcome))
                _logger.info("task rests", extra=live.log_fields)
        finally:
            self._ending.discard(live)

    async def _build_last_events(self, live: ActiveTask, outcome: Termination) -> Sequence[Event]:
        """Return the last events of a task without a run, with its cost if the executor knows the cost.

        If the executor fails here, the task ends nevertheless.
        """
        job, task, now_ns = _interrupted(live), live.task, self._clock.now_ns()
        if job is not None and isinstance(self._executor, ReportsLostWork):
            try:
                return await self._executor.lost(job, task, outcome, seconds=live.worked_seconds(now_ns))
            except Exception:
                _logger.exception("the cost of a task could not be determined", extra={"task": live.task_id})
        return (terminal_status(task, outcome, at_ns=now_ns),)

    def _run_of(self, live: ActiveTask) -> TaskRun | None:
        return next((run for running, run in self._running.values() if running is live), None)

    def is_left(self, live: ActiveTask) -> bool:
        """Return whether a task is busy although no run of this process works on it.

        Return false if an earlier attempt to open the log has resumed the task, or if the task is being cancelled.
        """
        return live.busy and self._run_of(live) is None and live not in self._ending

    def recover(self, live: ActiveTask, *, share: Callable[[ActiveTask], Callable[[], None]]) -> bool:
        """Resume a task whose run died with the previous process. Return false if the task cannot be resumed.

        Args:
            share: Counts the task towards its caller's limit, and returns a function that uncounts it.
        """
        if not self.is_left(live):
            return True
        job, executor = _interrupted(live), self._executor
        if job is None or live.taken_up > MOST_TAKEN_UP or not isinstance(executor, RecoverableExecutor):
            return False
        gate = asyncio.Event()
        gate.set()
        release = share(live)
        goes_on = self._run(live, job, executor.recover, gate, release, again=True)
        if not goes_on:
            release()
        return goes_on

    async def decided(self, seconds: float) -> None:
        """Wait until every recovered task has resumed or ended, at most for this many seconds.

        Do not wait for the tasks that wait for their turn.
        """
        begun = [run for _, run in self._running.values() if not run.waits]
        waiting = [asyncio.create_task(run.decided.wait()) for run in begun]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=seconds)
            for each in late:
                each.cancel()

    async def lose(self, live: ActiveTask) -> None:
        """End a task that cannot be resumed.

        Raises: TaskLogUnavailable.
        """
        await self._end(live, GIVEN_UP if live.taken_up > MOST_TAKEN_UP else RESTARTED)

    async def settle(self) -> None:
        """Write the ends of tasks that could not be written before. The next call retries failed writes."""
        for live in tuple(self._unwritten):
            with suppress(TaskLogUnavailable):
                await live.settle()
                self._unwritten.discard(live)

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` for running tasks, leave other tasks to the next process, and return when no task runs.

        If the next process could not resume the tasks, they are ended instead.
        """
        if self._running:
            await asyncio.wait(set(self._running), timeout=seconds)
        while self._running:
            for _, run in self._running.values():
                if self._goes_on:
                    run.leave()
                else:
                    run.stop(DRAINED)
            await asyncio.wait(set(self._running))

    async def _observed(self, live: ActiveTask, run: TaskRun, request: Mapping[str, str]) -> None:
        started = self._clock.monotonic()
        try:
            await run.to_end()
        finally:
            run.decided.set()
        if not live.resting:
            _logger.info("task is left to the next process", extra={"task": live.task_id, **request})
            return
        if live.unwritten:
            self._unwritten.add(live)
        seconds = self._clock.monotonic() - started
        self._metrics.observe_task(state_word(live.state), seconds)
        _logger.info("task rests", extra={**live.log_fields, **run.used, **request})

    def _count(self, state: TaskState) -> int:
        return sum(1 for live, _ in tuple(self._running.values()) if live.state == state)


def _log_start(live: ActiveTask, job: TaskJob, *, again: bool) -> None:
    """Log that the agent works on a message. A reader of logs sees by the first of these lines that nothing is missing.

    Args: `again` is True if an earlier process worked on the message.
    """
    is_first = sum(message.role == Role.ROLE_USER for message in live.task.history) <= 1 and not again
    about = {"task": live.task_id, "context": live.context_id, **({"restarted": True} if again else {})}
    _logger.info("task accepted" if is_first else "task continues", extra={**about, **_told_of(job)})


def _told_of(job: TaskJob) -> dict[str, str]:
    """Return the fields of the request for a log line."""
    return {**trace_of(job.metadata), **labels_of(job.metadata)}


def _interrupted(live: ActiveTask) -> TaskJob | None:
    """Rebuild the job of a run that ended with its process. The task itself contains everything for this."""
    task = live.task
    message = newest_message(task)
    if message is None:
        return None
    return TaskJob(
        owner=live.owner,
        task_id=task.id,
        context_id=task.context_id,
        message=message,
        metadata=MessageToDict(message.metadata),
        former=task if (pause := answered_pause(task)) else None,
        pause=pause,
    )
