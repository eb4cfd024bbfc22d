"""The value of an answer, in any of the formats that clients send. Pure.

The formats are text, data, the decisions of kagent's extension, and the responses of LangChain's Agent Inbox. This
module converts them to this project's own format, the only one that later steps know.
"""

from typing import Any

from a2a.types.a2a_pb2 import Message
from a2a.utils.errors import JSONParseError
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.extensions import KAGENT_HITL
from fleetwright_a2a.http.envelope import parse
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.tasks.human_input.agent_inbox import inbox_answer, read_response
from fleetwright_agent.server.tasks.human_input.kagent import kagent_answer


def answer_value(message: Message, pause: TaskInterrupt | None) -> Any:
    """Return the value of an answer: its data, its text parsed as JSON, or its text.

    JSON text must meet the same rules as a request body, for example the limit of nesting. Otherwise it stays text.

    Raises:
        ValueError: The message has the format of another client, and does not answer the question.
    """
    if pause is not None and KAGENT_HITL in message.metadata.fields:
        return kagent_answer(message, pause)
    value, text = _plain(message)
    if pause is not None and (response := read_response(value)) is not None:
        return inbox_answer(response, pause)
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
