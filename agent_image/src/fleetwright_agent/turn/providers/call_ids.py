"""Replaces the ids of tool calls that other providers gave, for a provider that refuses them. Pure."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

_ACCEPTED: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids that Anthropic accepts. It refuses Moonshot's `functions.look_up:0`."""
_LENGTH: Final = 9


def short_id(identity: str) -> str:
    """Return an id of nine letters and digits, which every provider accepts. One of this form is not changed."""
    is_short = len(identity) == _LENGTH and identity.isascii() and identity.isalnum()
    return identity if is_short else hashlib.sha256(identity.encode()).hexdigest()[:_LENGTH]


def restrict_ids(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with short ids in place of those that Anthropic refuses."""
    return [_restrict_message(message) for message in messages]


def _restrict_message(message: BaseMessage) -> BaseMessage:
    if isinstance(message, ToolMessage) and not _ACCEPTED.fullmatch(message.tool_call_id):
        return message.model_copy(update={"tool_call_id": short_id(message.tool_call_id)})
    if isinstance(message, AIMessage) and not all(_ACCEPTED.fullmatch(call["id"] or "") for call in message.tool_calls):
        calls = [{**call, "id": _choose_id(call["id"] or "")} for call in message.tool_calls]
        return message.model_copy(update={"tool_calls": calls, "content": _restrict_blocks(message.content)})
    return message


def _choose_id(identity: str) -> str:
    return identity if _ACCEPTED.fullmatch(identity) else short_id(identity)


def _restrict_blocks(content: Any) -> Any:
    """Return the content with the same ids in its blocks for tool calls."""
    if not isinstance(content, list):
        return content
    return [
        {**block, "id": _choose_id(str(block["id"]))} if isinstance(block, dict) and block.get("id") else block
        for block in content
    ]
