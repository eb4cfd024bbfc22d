"""Accepts a person's decision about an approval, exactly once, and continues the task with it.

The acceptance is one compare-and-set in the task log. The sender of a later decision learns who has decided.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from a2a.types.a2a_pb2 import Message

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.callers import person_name
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.approvals.answer_delivery import AnswerDelivery
from fleetwright_agent.server.approvals.decision import ApprovalDecision
from fleetwright_agent.server.approvals.listing import shown_arguments
from fleetwright_agent.server.approvals.open_approvals import approval_of
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.answer_checks import AnswerChecks
from fleetwright_agent.server.tasks.human_input.answer_values import answer_value
from fleetwright_agent.server.tasks.interrupt_replies import EXPIRY, stamp_of
from fleetwright_agent.server.tasks.size_limits import is_full
from fleetwright_agent.storage.tasks.task_log import TaskQueries
from fleetwright_agent.tools.human.approval import read_reply


class DecisionOutcome(StrEnum):
    ACCEPTED = "accepted"
    DECIDED = "decided"
    """Another decision or answer came first."""
    CHANGED = "changed"
    """The arguments of the call are not those that the person has seen."""
    NOT_FOUND = "notFound"
    INVALID = "invalid"
    """The tool may not run with the changed arguments."""


@dataclass(frozen=True, slots=True)
class DecisionResult:
    outcome: DecisionOutcome
    decision: str = ""
    decided_by: str = ""
    decided_at: str = ""
    problem: str = ""


class DecisionAcceptor:
    def __init__(
        self,
        log: TaskQueries,
        tasks: ActiveTasks,
        delivery: AnswerDelivery,
        *,
        answers: AnswerChecks,
        redact: Callable[[Any], Any],
        clock: Clock,
    ) -> None:
        self._log = log
        self._tasks = tasks
        self._delivery = delivery
        self._answers = answers
        self._redact = redact
        self._clock = clock

    async def decide(self, ask: str, decision: ApprovalDecision) -> DecisionResult:
        """Accept the decision, or return why it is not accepted.

        Raises:
            TaskLogUnavailable: The log cannot be used. The decision may be sent again.
            ServiceUnavailable: The agent accepts no message of this task's caller right now.
        """
        for key in await self._log.named(decision.task):
            live = await self._tasks.find(key.owner, key.task_id)
            if live is not None and (result := await self._decide(live, ask, decision)):
                return result
        return DecisionResult(DecisionOutcome.NOT_FOUND)

    async def _decide(self, live: ActiveTask, ask: str, decision: ApprovalDecision) -> DecisionResult | None:
        """Return the result, or None if the task has never asked this question."""
        pause = None if live.busy else approval_of(live.task)
        if pause is None or pause.identity != ask:
            return _earlier(live, ask, decision)
        if pause.expired(self._clock.now_ns()):
            # The next round of maintenance delivers the denial.
            return DecisionResult(DecisionOutcome.NOT_FOUND)
        if not hmac.compare_digest(pause.digest, decision.arguments_digest):
            return DecisionResult(DecisionOutcome.CHANGED)
        if problem := await self._problem(live, pause, decision):
            return DecisionResult(DecisionOutcome.INVALID, problem=problem)
        message, claim = decision.message(ask), decision.claim(live.owner, ask)
        if await self._delivery.deliver(live, pause, message, claim, by=decision.by):
            return DecisionResult(DecisionOutcome.ACCEPTED)
        # Another decision, an answer or a cancellation came first.
        return _earlier(live, ask, decision)

    async def _problem(self, live: ActiveTask, pause: TaskInterrupt, decision: ApprovalDecision) -> str | None:
        if is_full(live.task, decision.message(pause.identity)):
            return "the task has reached its maximum size; cancel it"
        if decision.edit is None:
            return None
        if shown_arguments(pause, self._redact) is None:
            return "the arguments of this call are not shown, so they cannot be changed; leave out arguments"
        return await self._answers.edit_problem(live, pause.tool, decision.edit)


def _earlier(live: ActiveTask, ask: str, decision: ApprovalDecision) -> DecisionResult | None:
    """Return the result for an approval that was answered before, or None if the task has no such answer."""
    found = stamp_of(live.task, ask)
    if found is None:
        return None
    stamp, message = found
    if stamp.get("by") == EXPIRY:
        return DecisionResult(DecisionOutcome.NOT_FOUND)
    if stamp.get("by") == decision.by and _means_the_same(message, decision):
        return DecisionResult(DecisionOutcome.ACCEPTED)
    return DecisionResult(
        DecisionOutcome.DECIDED,
        decision="Approved" if stamp.get("decision") == "approved" else "Denied",
        decided_by=person_name(str(stamp.get("by", ""))),
        decided_at=str(stamp.get("at", "")).replace("+00:00", "Z"),
    )


def _means_the_same(message: Message, decision: ApprovalDecision) -> bool:
    said: Any = answer_value(message, None)
    return read_reply(said) == read_reply(decision.reply())
