"""Every call of a tool has an identifier of its own in its conversation, whatever its provider calls it.

Providers exist that begin to count anew with each answer, or give no identifier at all. Results, entries of the ledger
and pins are found by it, so that the result of one call would be taken for that of another. Refuses: changing what is
told apart already, for some providers know their own identifiers again.
"""

from collections.abc import Sequence
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.turn.providers.tool_call_deltas import renamed


def told_apart(message: AIMessage, before: Sequence[AnyMessage]) -> None:
    """Gives the calls of a new message, which nobody has seen yet, the identifiers that they lack.

    Args:
        message: An answer of the model; changed in place.
        before: The whole conversation, also what the model is no longer shown.
    """
    if not message.tool_calls:
        return
    taken = {call["id"] for each in before if isinstance(each, AIMessage) for call in each.tool_calls}
    for call in message.tool_calls:
        former = call["id"]
        if not former or former in taken:
            call["id"] = identity = f"call_{uuid4().hex[:24]}"
            renamed(message, former or "", identity)
        taken.add(call["id"])
