"""Answers of callers to the question of a task. Pure.

The server sets the identity of the person who answered, and never takes it from the caller's message.
"""

from typing import Any

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import JSONParseError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extension_codec import attach
from fleetwright_a2a.extensions import ANSWER, ASK
from fleetwright_a2a.http.envelope import parse
from fleetwright_agent.protocol.frames import InterruptKind, InterruptReply
from fleetwright_agent.protocol.interrupts import TaskInterrupt, moment
from fleetwright_agent.tools.human.approval import read_reply


def answer_value(message: Message) -> Any:
    """Return the value of an answer: its data, its text parsed as JSON, or its text.

    JSON text must meet the same rules as a request body, for example the limit of nesting. Otherwise it stays text.
    """
    for part in message.parts:
        if part.HasField("data"):
            return MessageToDict(part.data)
    text = "\n".join(part.text for part in message.parts if part.HasField("text"))
    try:
        value = parse(text.encode())
    except JSONParseError:
        return text
    return value if isinstance(value, dict) else text


def stamp_answer(message: Message, pause: TaskInterrupt | None, *, owner: str, at_ns: int) -> Message:
    """Return a copy of the message, with the identity of the person who answered in its metadata."""
    kept = Message()
    kept.CopyFrom(message)
    if pause is not None:
        stamp: dict[str, Any] = {
            "ask": pause.identity,
            "by": owner,
            "at": moment(at_ns),
            "messageId": message.message_id,
        }
        if pause.kind is InterruptKind.APPROVAL:
            stamp |= {"tool": pause.tool, **_decision(answer_value(message), pause)}
        attach(kept, ANSWER, stamp)
    return kept


def _decision(value: Any, pause: TaskInterrupt) -> dict[str, Any]:
    reply = read_reply(value, pause.grants)
    decision = {"decision": "approved" if reply.approved else "declined"}
    return {**decision, **({"grants": list(reply.grants)} if reply.grants else {})}


def answers_another(message: Message, pause: TaskInterrupt | None) -> bool:
    """Return whether the message names a question other than the open question of the task."""
    named = MessageToDict(message.metadata).get(ASK)
    return isinstance(named, dict) and (pause is None or named.get("id") != pause.identity)


def reply_to(pause: TaskInterrupt, message: Message) -> InterruptReply:
    return InterruptReply(pause.identity, answer_value(message))
