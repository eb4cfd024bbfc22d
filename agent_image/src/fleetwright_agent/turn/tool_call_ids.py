"""Gives each tool call an id that is unique in its conversation.

Some providers restart their ids with each answer, or send no id. Results, ledger entries and pins are found by id, so
one call could otherwise get the result of another call. Ids that are already unique stay, because some providers expect
their own ids in the next request.
"""

from collections.abc import Sequence
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.turn.providers.tool_call_deltas import move_extras


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
