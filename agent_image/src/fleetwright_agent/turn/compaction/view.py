"""What the model is shown of a stored conversation. Pure; the stored messages never change.

Order: prior sessions, summary, the active request where the cut took it, the kept tail.
"""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.turn.compaction.policy import active_request, repaired
from fleetwright_agent.turn.compaction.summary import as_message
from fleetwright_agent.turn.context import View


def tail(messages: Sequence[AnyMessage], view: View | None) -> list[AnyMessage]:
    """The stored messages after the cut; all of them where the cut is unknown."""
    if view is None:
        return list(messages)
    index = next((i for i, message in enumerate(messages) if message.id == view["cut"]), None)
    return list(messages) if index is None else list(messages[index + 1 :])


def shown(messages: Sequence[AnyMessage], view: View | None, prior_sessions: str) -> list[AnyMessage]:
    """The messages of the next model call, valid for every provider."""
    kept = tail(messages, view)
    head: list[AnyMessage] = [HumanMessage(prior_sessions)] if prior_sessions else []
    if view is not None and len(kept) < len(messages):
        head.append(as_message(view["summary"]))
        request = active_request(messages)
        if request is not None and not any(message.id == request.id for message in kept):
            head.append(request)
    return [*head, *repaired(kept)]
