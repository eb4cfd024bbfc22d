"""How large a prompt is, in tokens: the provider's last count plus an estimate of what came after.

Pure. An estimate is a quarter of the characters with a little for each message and call (T-12).
"""

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.turn.images import count

_PER_MESSAGE = 4
_PER_CALL = 10
_PER_PROMPT = 10
_PER_PICTURE = 1500
"""About what providers take for one that fills their usual frame; its bytes say nothing of it."""


def estimate_text(text: str) -> int:
    return -(-len(text) // 4)


def estimate(messages: Sequence[AnyMessage]) -> int:
    """Estimated tokens of messages alone."""
    total = 0
    for message in messages:
        # Nearly all are plain, and whoever measures thousands pays for each way round.
        text = message.content if isinstance(message.content, str) else message.text
        total += estimate_text(text) + _PER_MESSAGE + _PER_PICTURE * count(message)
        if isinstance(message, AIMessage):
            total += sum(_PER_CALL + estimate_text(json.dumps(call["args"])) for call in message.tool_calls)
    return total


def prompt_tokens(
    messages: Sequence[AnyMessage], *, system: str, tools: Sequence[dict[str, Any]], trusted_from: str | None
) -> int:
    """Tokens of the prompt that these messages will make.

    Args:
        messages: What the model will be shown.
        system: The system message.
        tools: The tool declarations.
        trusted_from: Id of the message after which a report of usage measured this same view, or None
            where the view never changed.
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
