"""Pictures in messages, and their replacement by text for models without vision. Pure.

LangChain has one format for pictures, which each provider's client converts. The agent never fetches a picture from a
URL: the model gets the URL as text.
"""

from base64 import b64encode
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.protocol.frames import TurnRequest

_content: Final = attrgetter("content")
_UNSEEN: Final = "[A picture was here, which this model cannot see.]"


def user_message(request: TurnRequest) -> HumanMessage:
    """Return the caller's message in the form in which the conversation stores it."""
    if not request.pictures:
        return HumanMessage(request.text)
    words = [{"type": "text", "text": request.text}] if request.text else []
    shown = [
        {"type": "image", "mime_type": picture.media_type, "base64": b64encode(picture.data).decode()}
        for picture in request.pictures
    ]
    return HumanMessage([*words, *shown])


def count(message: AnyMessage) -> int:
    return sum(map(_is_picture, message.content)) if isinstance(message.content, list) else 0


def describe_images(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the same messages, with text in place of each picture."""
    if list not in map(type, map(_content, messages)):  # Each model call checks the whole conversation.
        return list(messages)
    return [_in_words(message) if count(message) else message for message in messages]


def _in_words(message: AnyMessage) -> AnyMessage:
    parts = [_UNSEEN if _is_picture(part) else _text(part) for part in message.content]
    return message.model_copy(update={"content": "\n".join(filter(None, parts))})


def _is_picture(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image"


def _text(part: Any) -> str:
    return part if isinstance(part, str) else str(part.get("text", ""))
