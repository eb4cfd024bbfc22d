"""Whether a new view may take the place of the old one. Pure: the word for what is wrong, or nothing."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from fleetwright_agent.protocol.fences import SUMMARY
from fleetwright_agent.turn.compaction.pairs import active_request, torn
from fleetwright_agent.turn.compaction.view import View, shown


def wrong(
    messages: Sequence[AnyMessage], view: View, *, prior_sessions: str, before: int, after: int, min_gain: float
) -> str | None:
    """Checks the view as it will be shown.

    Args:
        messages: The stored conversation.
        view: The new view of it.
        prior_sessions: What stands before it.
        before: Tokens of the prompt as it is, by the same measure as `after`.
        after: Tokens of the prompt as it would be.
        min_gain: The part by which it has to be shorter.
    """
    visible = shown(messages, view, prior_sessions)
    if torn(visible):
        return "torn_pair"
    request = active_request(messages)
    if request is not None and not any(m.id == request.id and m.content == request.content for m in visible):
        return "request_lost"
    if view.pinned and not any(message.content == view.pinned for message in visible):
        return "pins_lost"
    if view.summary and (not view.summary.endswith(f"</{SUMMARY}>") or view.summary.count(f"</{SUMMARY}>") != 1):
        return "open_fence"
    if after > (1 - min_gain) * before:
        return "no_gain"
    return None
