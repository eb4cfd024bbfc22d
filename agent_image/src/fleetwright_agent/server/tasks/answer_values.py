"""The value of an answer, in any of the formats that clients send. Pure.

The formats are text, data, the decisions of kagent's extension, and the responses of LangChain's Agent Inbox. This
module converts them to this project's own format, the only one that later steps know.
"""

import json
from collections.abc import Mapping
from typing import Any

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import JSONParseError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extensions import KAGENT_HITL
from fleetwright_a2a.http.envelope import parse
from fleetwright_a2a.human_input.agent_inbox import InboxAction, InboxResponse, inbox_response
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.tasks.kagent import kagent_answer
from fleetwright_agent.tools.human.approval import UNTYPED
from fleetwright_agent.tools.human.form_questions import form_questions
from fleetwright_agent.tools.typed_text import typed_value

_IGNORED = "The person did not answer."


def answer_value(message: Message, pause: TaskInterrupt | None) -> Any:
    """Return the value of an answer: its data, its text parsed as JSON, or its text.

    JSON text must meet the same rules as a request body, for example the limit of nesting. Otherwise it stays text.

    Raises:
        ValueError: The message has the format of another client, and does not answer the question.
    """
    if pause is not None and KAGENT_HITL in message.metadata.fields:
        return kagent_answer(message, pause)
    value, text = _plain(message)
    if pause is not None and (response := _inbox(value)) is not None:
        return _inbox_answer(response, pause)
    return value if text is None or isinstance(value, dict) else text


def _plain(message: Message) -> tuple[Any, str | None]:
    """Return the data of the message and None, or its text, parsed if it is JSON, and the text itself."""
    for part in message.parts:
        if part.HasField("data"):
            return MessageToDict(part.data), None
    text = "\n".join(part.text for part in message.parts if part.HasField("text"))
    try:
        return parse(text.encode()), text
    except JSONParseError:
        return text, text


def _inbox(value: Any) -> InboxResponse | None:
    try:
        return inbox_response(value)
    except ValueError as error:
        raise ValueError(f"message.parts: {error}") from None


def _inbox_answer(response: InboxResponse, pause: TaskInterrupt) -> Any:
    if pause.kind is InterruptKind.APPROVAL:
        return _decision(response, pause)
    match response.action:
        case InboxAction.RESPONSE:
            return response.text
        case InboxAction.IGNORE:
            return _IGNORED
    if pause.kind is not InterruptKind.FORM or response.arguments is None:
        raise ValueError("message.parts: type must be response or ignore, because the task waits for an answer")
    schemas = {field.name: field.schema for field in form_questions(pause.form or {})}
    return {name: typed_value(value, schemas.get(name)) for name, value in response.arguments.items()}


def _decision(response: InboxResponse, pause: TaskInterrupt) -> dict[str, Any]:
    match response.action:
        case InboxAction.RESPONSE:
            return {"approved": False, "reason": response.text}
        case InboxAction.IGNORE:
            return {"approved": False}
    if response.arguments is None:
        return {"approved": True}
    if response.tool != pause.tool:
        raise ValueError(f"message.parts: args.action must be {pause.tool!r}, the tool that needs the approval")
    if pause.arguments is not None and _same_as_text(response.arguments, pause.arguments):
        return {"approved": True}
    if response.action is InboxAction.ACCEPT:
        raise ValueError("message.parts: an acceptance must not change args.args; send an edit")
    return {"approved": True, "arguments": dict(response.arguments), UNTYPED: True}


def _same_as_text(edited: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Return whether the edited arguments are those of the question, apart from values that became texts."""
    return edited.keys() == asked.keys() and all(
        edited[name] == value or (isinstance(edited[name], str) and edited[name] == json.dumps(value))
        for name, value in asked.items()
    )
