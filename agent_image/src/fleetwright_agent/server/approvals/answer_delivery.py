"""Delivers an answer to an approval that does not come from the caller of the task.

The answer is the decision of a reviewer, or the denial when the approval expires.
"""

from typing import Protocol

from a2a.types.a2a_pb2 import Message

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.concurrency_limits import Release
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.approvals.open_approvals import approval_of
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.interrupt_replies import record_answer, stamp_answer
from fleetwright_agent.server.tasks.new_task import job_of
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.tasks.records import AcceptedClaim, Claim, DuplicateClaim
from fleetwright_agent.telemetry.metrics import Metrics


class RunningTasks(Protocol):
    """Counts the running tasks of each caller."""

    def again(self, live: ActiveTask) -> Release:
        """Count a resumed task, and return a function that removes it from the count."""


class AnswerDelivery:
    def __init__(
        self, runs: TaskRunner, running: RunningTasks, *, admission: Admission, clock: Clock, metrics: Metrics
    ) -> None:
        self._runs = runs
        self._running = running
        self._admission = admission
        self._clock = clock
        self._metrics = metrics

    async def deliver(self, live: ActiveTask, pause: TaskInterrupt, message: Message, claim: Claim, *, by: str) -> bool:
        """Accept the answer with one compare-and-set in the task log, and continue the task.

        Return false if another answer or a cancellation came first.

        Raises:
            TaskLogUnavailable: The log cannot be used. The answer may be delivered again.
            ServiceUnavailable: The agent accepts no message of this task's caller right now.
        """
        former, now = live.task, self._clock.now_ns()
        # After the caller's last check, the task may have continued and asked another question.
        asked = None if live.busy else approval_of(former)
        if asked is None or asked.identity != pause.identity:
            return False
        message.task_id, message.context_id = live.task_id, live.context_id
        kept = stamp_answer(message, pause, by=by, at_ns=now)
        self._admission.admit(live.owner, begins=False)
        release = self._running.again(live)
        try:
            answer = await live.resume(claim, kept)
        except BaseException:
            release()
            raise
        if not isinstance(answer, AcceptedClaim):
            release()
            return isinstance(answer, DuplicateClaim)
        record_answer(self._metrics, live.task_id, pause, kept, now_ns=now)
        self._runs.take_up(live, job_of(live, kept, pause, former), then=release)()
        return True
