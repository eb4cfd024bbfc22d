"""Repairs a prompt that a provider refused, so that one bad message does not make a conversation unusable. Pure.

No text of a caller is dropped, except for control characters and lone surrogates.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.turn.compaction.pairs import repair_pairs
from fleetwright_agent.turn.providers.reasoning import RETURNED

_UNUSUAL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""Control characters and lone surrogates: valid in JSON, but refused by some providers."""
_WITHHELD: Final = "Error: the provider of the model refused this result; go on without it."
CONTINUE: Final = "Please continue."


def clean_messages(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Normalise the messages.

    Remove unusual characters, empty answers and reasoning, add missing results, and end with a message of the user or a
    tool. One message at least is the user's.
    """
    kept = [_clean(message) for message in repair_pairs(messages) if not _is_empty(message)]
    if kept and not any(isinstance(message, HumanMessage) for message in kept):
        kept = [HumanMessage(CONTINUE), *kept]
    return [*kept, HumanMessage(CONTINUE)] if kept and isinstance(kept[-1], AIMessage) else kept


def withhold_results(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Replace the newest tool results. Messages after them, such as remembered facts, exist only in this prompt."""
    end = len(messages)
    while end and isinstance(messages[end - 1], HumanMessage):
        end -= 1
    begin = end
    while begin and isinstance(messages[begin - 1], ToolMessage):
        begin -= 1
    return [
        *messages[:begin],
        *(message.model_copy(update={"content": _WITHHELD, "status": "error"}) for message in messages[begin:end]),
        *messages[end:],
    ]


def _is_empty(message: AnyMessage) -> bool:
    return isinstance(message, AIMessage) and not message.content and not message.tool_calls


def _clean(message: AnyMessage) -> AnyMessage:
    update: dict[str, Any] = {}
    if isinstance(message.content, str) and _UNUSUAL.search(message.content):
        update["content"] = _UNUSUAL.sub("", message.content)
    if (
        isinstance(message.content, list)
        and (parts := _without(_drop_unsigned_reasoning(message.content))) != message.content
    ):
        update["content"] = parts
    if isinstance(message, AIMessage) and RETURNED in message.additional_kwargs:
        update["additional_kwargs"] = {key: each for key, each in message.additional_kwargs.items() if key != RETURNED}
    if isinstance(message, AIMessage) and message.tool_calls:
        calls = [{**call, "args": _without(call["args"])} for call in message.tool_calls]
        if calls != message.tool_calls:
            update["tool_calls"] = calls
    return message.model_copy(update=update) if update else message


def _drop_unsigned_reasoning(content: list[Any]) -> list[Any]:
    """Return the blocks of a message without reasoning that has no signature, which Anthropic refuses."""
    return [
        block
        for block in content
        if not (isinstance(block, dict) and block.get("type") == "thinking" and not block.get("signature"))
    ]


def _without(value: Any) -> Any:
    if isinstance(value, str):
        return _UNUSUAL.sub("", value)
    if isinstance(value, list):
        return [_without(each) for each in value]
    if isinstance(value, dict):
        return {_UNUSUAL.sub("", key): _without(each) for key, each in value.items()}
    return value
