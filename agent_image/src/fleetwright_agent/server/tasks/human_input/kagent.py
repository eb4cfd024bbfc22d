"""Questions and answers in the format of kagent's extension `hitl/v1`. Pure."""

from typing import Any

from a2a.types.a2a_pb2 import Message
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extensions import KAGENT_HITL
from fleetwright_a2a.human_input.kagent import (
    UserQuestion,
    answers_of,
    ask_user_request,
    decision_of,
    tool_approval_request,
)
from fleetwright_agent.protocol.arguments import reviewable
from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.tools.human.form_questions import form_questions

_ELSEWHERE = " The arguments are in the text of the message."


def kagent_request(ask: InterruptRequest) -> dict[str, Any]:
    """Return the payload of a question."""
    if ask.kind is not InterruptKind.APPROVAL:
        fields = form_questions(ask.payload) if ask.kind is InterruptKind.FORM else ()
        questions = [UserQuestion(each.text, each.choices, each.multiple) for each in fields]
        return ask_user_request(ask.identity, questions or [UserQuestion(ask.prompt)])
    hint, arguments = str(ask.payload.get("title", "")), reviewable(ask.arguments or {})
    return tool_approval_request(
        ask.identity,
        call_id=ask.call_id,
        tool=ask.tool,
        arguments=arguments or {},
        hint=hint if arguments is not None else f"{hint}{_ELSEWHERE}",
    )


def kagent_answer(message: Message, pause: TaskInterrupt) -> Any:
    """Return the answer of a message with a payload of the extension.

    Raises:
        ValueError: The payload does not answer the question of the task. The text names the member.
    """
    if KAGENT_HITL not in message.extensions:
        raise ValueError(f"message.extensions must list {KAGENT_HITL}, because message.metadata has its data")
    payload = MessageToDict(message.metadata)[KAGENT_HITL]
    try:
        return _answer(payload, pause)
    except ValueError as error:
        raise ValueError(f"message.metadata[{KAGENT_HITL!r}]: {error}") from None


def _answer(payload: Any, pause: TaskInterrupt) -> Any:
    if pause.kind is InterruptKind.APPROVAL:
        decision = decision_of(payload, pause.identity)
        return {"approved": decision.approved, **({"reason": decision.reason} if decision.reason else {})}
    fields = form_questions(pause.form or {})
    answers = answers_of(payload, pause.identity, most=len(fields) or 1)
    if not fields:
        return ", ".join(answers[0])
    return {field.name: field.value(answer) for field, answer in zip(fields, answers, strict=True)}
