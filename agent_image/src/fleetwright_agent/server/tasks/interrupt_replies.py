"""Answers of callers to the question of a task: their values, and the stamps that say who answered.

The server sets the identity of the person who answered, and never takes it from the caller's message.
"""

import logging
from typing import Any, Final

from a2a.types.a2a_pb2 import Message, Task
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extension_codec import attach
from fleetwright_a2a.extensions import ANSWER, ASK
from fleetwright_agent.protocol.frames import InterruptKind, InterruptReply
from fleetwright_agent.protocol.interrupts import TaskInterrupt, moment
from fleetwright_agent.server.tasks.human_input.answer_values import answer_value
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.human.approval import EXPIRED, read_reply

_logger = logging.getLogger(__name__)
EXPIRY: Final = "expiry"
"""The author of a denial that no person has sent: the deadline of the approval has passed."""


def stamp_answer(message: Message, pause: TaskInterrupt | None, *, by: str, at_ns: int) -> Message:
    """Return a copy of the message, with the identity of the person who answered in its metadata."""
    kept = Message()
    kept.CopyFrom(message)
    if pause is not None:
        stamp: dict[str, Any] = {
            "ask": pause.identity,
            "by": by,
            "at": moment(at_ns),
            "messageId": message.message_id,
        }
        if pause.kind is InterruptKind.APPROVAL:
            stamp |= {"tool": pause.tool, **_decision(answer_value(message, pause), pause)}
        attach(kept, ANSWER, stamp)
    return kept


def _decision(value: Any, pause: TaskInterrupt) -> dict[str, Any]:
    reply = read_reply(value, pause.grants)
    return {
        "decision": "approved" if reply.approved else "declined",
        **({"grants": list(reply.grants)} if reply.grants else {}),
        **({"reason": reply.reason} if reply.reason else {}),
        **({"edited": True} if reply.arguments is not None else {}),
    }


def stamp_of(task: Task, ask: str) -> tuple[dict[str, Any], Message] | None:
    """Return the stamp of the answer to a question of the task, with the message of the answer."""
    for message in reversed(task.history):
        stamp = MessageToDict(message.metadata).get(ANSWER) if ANSWER in message.metadata.fields else None
        if isinstance(stamp, dict) and stamp.get("ask") == ask:
            return stamp, message
    return None


def has_expired_before(task: Task) -> bool:
    """Return True if the server has already denied an expired approval of the task."""
    return any(map(_is_expiry, task.history))


def record_answer(metrics: Metrics, task_id: str, pause: TaskInterrupt, message: Message, *, now_ns: int) -> None:
    """Count and log an accepted answer, or the expiry of an approval."""
    stamp = MessageToDict(message.metadata)[ANSWER]
    if stamp["by"] == EXPIRY:
        _logger.info("an approval has expired", extra={"task": task_id, "kind": pause.kind.value, **stamp})
        return
    metrics.hitl_wait.labels(pause.kind.value).observe((now_ns - pause.since_ns) / 1e9)
    _logger.info("a person answered", extra={"task": task_id, "kind": pause.kind.value, **stamp})


def answers_another(message: Message, pause: TaskInterrupt | None) -> bool:
    """Return whether the message names a question other than the open question of the task."""
    named = MessageToDict(message.metadata).get(ASK)
    return isinstance(named, dict) and (pause is None or named.get("id") != pause.identity)


def reply_to(pause: TaskInterrupt, message: Message) -> InterruptReply:
    value = answer_value(message, pause)
    if pause.kind is InterruptKind.APPROVAL and isinstance(value, dict) and not _is_expiry(message):
        value.pop(EXPIRED, None)  # Only the server can say that an approval has expired.
    return InterruptReply(pause.identity, value)


def _is_expiry(message: Message) -> bool:
    stamp = MessageToDict(message.metadata).get(ANSWER)
    return isinstance(stamp, dict) and stamp.get("by") == EXPIRY
