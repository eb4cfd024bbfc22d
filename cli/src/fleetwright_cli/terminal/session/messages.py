"""The A2A messages that this client sends. Pure."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_a2a.extensions import ASK
from fleetwright_cli.terminal.model.values import PendingAsk

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that goes with a message."""

    name: str
    media_type: str
    content: bytes = field(repr=False)


def new_message(text: str, *, message_id: str, context_id: str, pictures: Sequence[Picture] = ()) -> Json:
    """Return a message that starts a task."""
    parts: list[Json] = [{"text": text}]
    parts += [
        {"raw": base64.b64encode(each.content).decode(), "mediaType": each.media_type, "filename": each.name}
        for each in pictures
    ]
    return {"messageId": message_id, "contextId": context_id, "role": "ROLE_USER", "parts": parts}


def answer_message(ask: PendingAsk, value: str | Mapping[str, Any], *, message_id: str) -> Json:
    """Return the answer to an ask. It names the ask, so that it never answers another one."""
    part: Json = {"text": value} if isinstance(value, str) else {"data": dict(value)}
    message: Json = {"messageId": message_id, "taskId": ask.task_id, "role": "ROLE_USER", "parts": [part]}
    if ask.identity:
        message |= {"metadata": {ASK: {"id": ask.identity}}, "extensions": [ASK]}
    return message
