"""Gives each tool call of an answer an id that is unique in its conversation, and a name that every provider accepts.

Some providers restart their ids with each answer, or send no id. Results, ledger entries and pins are found by id, so
one call could otherwise get the result of another call. Ids that are already unique stay, because some providers expect
their own ids in the next request.

A model may invent the name of a tool. Providers refuse a conversation with a name such as `files.read` in each later
request, so such a name is stored in another form.
"""

from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.turn.providers.tool_call_deltas import move_extras

_NAMELESS: Final = "unnamed"


def assign_unique_ids(message: AIMessage, before: Sequence[AnyMessage]) -> None:
    """Replace missing and repeated ids in the tool calls of a new message.

    Args:
        message: The model's new answer, which is changed in place.
        before: The whole conversation, including messages that the model no longer sees.
    """
    if not message.tool_calls:
        return
    taken = {call["id"] for each in before if isinstance(each, AIMessage) for call in each.tool_calls}
    for call in message.tool_calls:
        former = call["id"]
        if not former or former in taken:
            call["id"] = identity = f"call_{uuid4().hex[:24]}"
            move_extras(message, former or "", identity)
        taken.add(call["id"])
    _set_block_ids(message)


def _set_block_ids(message: AIMessage) -> None:
    """Give the blocks of Anthropic's calls the ids of the calls, which are in the same order."""
    blocks = message.content if isinstance(message.content, list) else []
    called = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
    if len(called) == len(message.tool_calls):
        for block, call in zip(called, message.tool_calls, strict=True):
            block["id"] = call["id"]


def assign_valid_names(message: AIMessage) -> None:
    """Replace names of called tools that some provider refuses. The message is changed in place."""
    for call in message.tool_calls:
        call["name"] = offered_name(call["name"] or _NAMELESS)
    if isinstance(message.content, list):
        # Anthropic's answers have the calls in their content too.
        message.content = [
            {**block, "name": offered_name(str(block["name"] or _NAMELESS))}
            if isinstance(block, dict) and block.get("type") == "tool_use" and "name" in block
            else block
            for block in message.content
        ]
