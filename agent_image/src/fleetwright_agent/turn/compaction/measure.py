"""Measures a prompt in tokens: the provider's last count, plus an estimate of the messages added since then.

Pure. The estimate is one token for four characters, plus a constant for each message and tool call.
"""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.turn.images import count
from fleetwright_agent.turn.providers.reasoning import RETURNED

_PER_MESSAGE = 4
_PER_CALL = 10
_PER_PROMPT = 10
_PER_PICTURE = 1500
"""The approximate tokens for a picture of the usual maximum size. The tokens do not depend on the size in bytes."""


def estimate_text(text: str) -> int:
    return -(-len(text) // 4)


def estimate(messages: Sequence[AnyMessage]) -> int:
    """Estimated tokens of messages alone."""
    total = 0
    for message in messages:
        # Fast path: most contents are plain strings, and `message.text` is slow for thousands of messages.
        text = message.content if isinstance(message.content, str) else message.text
        total += estimate_text(text) + _PER_MESSAGE + _PER_PICTURE * count(message)
        if isinstance(message, AIMessage):
            total += sum(_PER_CALL + estimate_text(json.dumps(call["args"])) for call in message.tool_calls)
            if returned := message.additional_kwargs.get(RETURNED):
                total += estimate_text(json.dumps(returned))
    return total


def prompt_tokens(
    messages: Sequence[AnyMessage], *, system: str, tools: Sequence[dict[str, Any]], trusted_from: str | None
) -> int:
    """Tokens of the prompt that these messages will make.

    Args:
        messages: The messages for the model.
        system: The system message.
        tools: The tool declarations.
        trusted_from: The id of a message; only token counts that the provider reported after it are for this view.
            None if the view never changed.
    """
    start = 0
    if trusted_from is not None:
        start = next((i + 1 for i, message in enumerate(messages) if message.id == trusted_from), len(messages))
    for index in range(len(messages) - 1, start - 1, -1):
        message = messages[index]
        if isinstance(message, AIMessage) and message.usage_metadata:
            return message.usage_metadata["total_tokens"] + estimate(messages[index + 1 :])
    declared = sum(estimate_text(json.dumps(tool)) for tool in tools)
    return estimate(messages) + estimate_text(system) + declared + _PER_PROMPT
