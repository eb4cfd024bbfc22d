"""Denies an approval without a decision in time, so that the task continues without the tool call.

The denial is delivered like the decision of a person, with the same compare-and-set. The second approval of a task that
expires ends the task. Otherwise, a task that asks again and again would never end.
"""

import hashlib
import logging
from collections.abc import Awaitable, Callable
from uuid import NAMESPACE_OID, uuid5

from a2a.types.a2a_pb2 import Message, Part, Role, Task
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import ServiceUnavailable
from fleetwright_agent.protocol.interrupts import TaskInterrupt, pause_of
from fleetwright_agent.protocol.termination_reasons import Termination, terminal_status, unanswered, unanswered_again
from fleetwright_agent.server.approvals.answer_delivery import AnswerDelivery
from fleetwright_agent.server.approvals.open_approvals import approval_of
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.interrupt_replies import EXPIRY, has_expired_before
from fleetwright_agent.server.tasks.size_limits import is_full
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.tools.human.approval import expired_reply

_logger = logging.getLogger(__name__)


class ApprovalExpiry:
    def __init__(
        self, delivery: AnswerDelivery, *, release: Callable[[str, str], Awaitable[None]], clock: Clock
    ) -> None:
        """Args: `release` is called with the owner and the id of a task that fails, and may not raise an error."""
        self._delivery = delivery
        self._release = release
        self._clock = clock

    async def expire(self, live: ActiveTask) -> None:
        """Deny the approval of a task if its deadline has passed. A task that cannot continue fails instead.

        Raises: TaskLogUnavailable: The log cannot be used. The next call tries again.
        """
        now, pause = self._clock.now_ns(), None if live.busy else pause_of(live.task)
        if pause is None or not pause.expired(now):
            return
        denial = _denial(live.task_id, pause)
        if (outcome := _termination(live.task, pause, denial)) is not None:
            if await live.end(terminal_status(live.task, outcome, at_ns=now)):
                _logger.info("a task has failed, because its wait expired", extra=live.log_fields)
                await self._release(live.owner, live.task_id)
            return
        claim = Claim(live.owner, denial.message_id, hashlib.sha256(b"expiry of an approval\n").digest())
        try:
            await self._delivery.deliver(live, pause, denial, claim, by=EXPIRY)
        except ServiceUnavailable:
            _logger.info("the expiry of an approval waits, because its owner's memory is being erased")


def _termination(task: Task, pause: TaskInterrupt, denial: Message) -> Termination | None:
    """Return the outcome of a task that the denial cannot continue, or None if the task continues."""
    if approval_of(task) is None or is_full(task, denial):
        return unanswered(pause.tool)
    return unanswered_again(pause.tool) if has_expired_before(task) else None


def _denial(task_id: str, pause: TaskInterrupt) -> Message:
    data = Part(data=ParseDict(expired_reply(), Value()), media_type="application/json")
    # The text is for people, and for executors of the a2a-sdk that read no data.
    parts = [Part(text="declined"), data]
    # An executor may ask a second question with the same id. The time distinguishes the two questions.
    identity = uuid5(NAMESPACE_OID, f"{task_id}\n{pause.identity}\n{pause.since_ns}\n{EXPIRY}")
    return Message(message_id=str(identity), role=Role.ROLE_USER, parts=parts)
