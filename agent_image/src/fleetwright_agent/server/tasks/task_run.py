"""One run: from an accepted message until the task ends or waits for its caller, regardless of what the work does.

A run ends its task exactly once: when the work ends, exceeds its time limit, stalls or is stopped. Otherwise the run
leaves the task to the next process. A run does not wait indefinitely for work that ignores its cancellation.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import TaskState, TaskStatusUpdateEvent

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import RESTING, Event
from fleetwright_agent.protocol.frames import TurnFailed
from fleetwright_agent.protocol.termination_reasons import (
    BROKE,
    UNWRITTEN,
    Termination,
    handed_over_status,
    stalled,
    terminal_status,
    too_long,
)
from fleetwright_agent.server.executors.port import Heartbeat, ReportsUsage, TaskWork
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.turn_queue import TurnTicket
from fleetwright_agent.storage.errors import TaskLogUnavailable

_logger = logging.getLogger(__name__)
CLEANUP_SECONDS: Final = 5.0


def _rests(events: Sequence[Event]) -> bool:
    last = events[-1] if events else None
    return isinstance(last, TaskStatusUpdateEvent) and last.status.state in RESTING


@dataclass(frozen=True, slots=True)
class RunTimeouts:
    """The time limits of a run, in seconds: total, without progress, and for cleanup after a cancellation."""

    limit: float
    stall: float = 0
    """Zero disables stall detection."""
    cleanup: float = CLEANUP_SECONDS


class TaskRun:
    def __init__(
        self,
        live: ActiveTask,
        work: TaskWork,
        pulse: Heartbeat,
        *,
        ticket: TurnTicket,
        gate: asyncio.Event,
        timing: RunTimeouts,
        clock: Clock,
        again: bool = False,
    ) -> None:
        """
        Args:
            ticket: The place of the run in the queue of turns.
            gate: The work begins when this event is set.
            again: True if an earlier process worked on the message.
        """
        self._again = again
        self._gate = gate
        self._live = live
        self._work = work
        self._pulse = pulse
        self._ticket = ticket
        self._timing = timing
        self._clock = clock
        self._watching: asyncio.TimerHandle | None = None
        self._outcome: Termination | None = None
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def decided(self) -> asyncio.Event:
        """An event that is set when recovered work has resumed or ended."""
        return self._pulse.decided

    def stop(self, outcome: Termination) -> None:
        """Cancel the work. The first outcome counts, and finished work keeps its result.

        If the run is about to be left to the next process, it ends with this outcome instead.
        """
        self._outcome = self._outcome or outcome
        self.leave()

    def leave(self) -> None:
        """Cancel the work and leave the task unchanged in the log, so that the next process resumes it."""
        self._pulse.left = self._outcome is None
        if not self._stopped.done():
            self._stopped.set_result(None)

    @property
    def waits(self) -> bool:
        """True until the run may begin its work."""
        return not self._ticket.granted

    @property
    def used(self) -> Mapping[str, Any]:
        """The usage of the work, if the work measures it."""
        return self._work.used() if isinstance(self._work, ReportsUsage) else {}

    async def to_end(self) -> None:
        working = asyncio.ensure_future(self._in_turn())
        either: set[asyncio.Future[Any]] = {working, self._stopped}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and not await self._cancelled(working):
            if self._outcome is None:
                self._live.leave(handed_over_status(self._live.task, at_ns=self._clock.now_ns()))
                return
            events = self._build_last_events(self._outcome)
        else:
            events = await self._ended(working)
        await self._rest(events)

    async def _rest(self, events: Sequence[Event]) -> None:
        if not _rests(events):
            _logger.error("the work ended without a final status", extra={"task": self._live.task_id})
            events = (*events, *self._build_last_events(BROKE))
        refused = await self._refused(events)
        if refused is BROKE:
            # The events that cannot be serialised may be the last events of the work itself.
            refused = await self._refused(self._build_last_events(BROKE))
        if refused is BROKE:
            refused = await self._refused((self._ending(BROKE),))
        if refused is not None:
            self._live.rest_unwritten(self._unwritten(refused))

    async def _refused(self, events: Sequence[Event]) -> Termination | None:
        """Write the last events, and return None. If they cannot be written, return the outcome to use instead."""
        try:
            await self._live.rest(events)
        except TaskLogUnavailable:
            _logger.exception("the end of a task could not be stored", extra={"task": self._live.task_id})
            return UNWRITTEN
        except Exception:
            # A third-party executor may emit events that cannot be serialised.
            _logger.exception("the last events of a task are invalid", extra={"task": self._live.task_id})
            return BROKE
        return None

    def _unwritten(self, outcome: Termination) -> Sequence[Event]:
        """Return the last events of a task that could not be stored.

        The events include the usage of the work, unless the work reports a success whose result is lost.
        """
        words = self._build_last_events(outcome) if outcome is UNWRITTEN else ()
        last = words[-1] if words else None
        fails = isinstance(last, TaskStatusUpdateEvent) and last.status.state == outcome.state
        return words if fails else (self._ending(outcome),)

    def _ending(self, outcome: Termination) -> TaskStatusUpdateEvent:
        return terminal_status(self._live.task, outcome, at_ns=self._clock.now_ns())

    async def _in_turn(self) -> Sequence[Event]:
        try:
            await self._gate.wait()
            await self._ticket.turn()
            return await self._timed()
        finally:
            self._ticket.leave()

    async def _timed(self) -> Sequence[Event]:
        limit, stall = self._timing.limit, self._timing.stall
        self._pulse.beat()
        used = (self._clock.now_ns() - self._live.begin(again=self._again)) / 1e9
        # Earlier processes may have used part of the limit. If the clock was set back, the full limit applies.
        left = min(max(limit - used, 0), limit)
        deadline = asyncio.get_running_loop().call_later(left, self.stop, too_long(limit))
        self._watch(stall)
        try:
            return await self._work.run()
        finally:
            deadline.cancel()
            if self._watching is not None:
                self._watching.cancel()

    def _watch(self, seconds: float) -> None:
        """Stop the run if it has stalled. Otherwise, schedule the next check."""
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
            state = TaskState.TASK_STATE_REJECTED if failure.refused else TaskState.TASK_STATE_FAILED
            return self._build_last_events(Termination(state, failure.message, failure.reason, failure.details))
        except (Exception, asyncio.CancelledError):
            # A cancellation that this run did not request comes from the work itself, and counts as a failure.
            _logger.exception("turn broke", extra={"task": self._live.task_id})
            return self._build_last_events(BROKE)

    async def _cancelled(self, working: asyncio.Future[Sequence[Event]]) -> bool:
        """Cancel the work, and wait at most for the cleanup time. Return true if the work has returned a result."""
        working.cancel()
        await asyncio.wait({working}, timeout=self._timing.cleanup)
        # The turns behind it must not wait for work that ignores its cancellation. Work that was cancelled before its
        # first step has not left the queue itself.
        self._ticket.leave()
        if not working.done():
            _logger.error("cancelled work does not stop", extra={"task": self._live.task_id})
            return False
        return not working.cancelled() and working.exception() is None

    def _build_last_events(self, outcome: Termination) -> Sequence[Event]:
        try:
            return self._work.cut(outcome)
        except Exception:
            _logger.exception("the work failed to provide its last events", extra={"task": self._live.task_id})
            return (self._ending(outcome),)
