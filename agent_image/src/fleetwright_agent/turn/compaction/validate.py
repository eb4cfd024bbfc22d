"""Checks whether a new view may replace the old one. Pure; returns the machine-readable reason for a rejection."""

from collections.abc import Sequence

from langchain_core.messages import AnyMessage

from fleetwright_agent.protocol.fences import SUMMARY
from fleetwright_agent.telemetry.failure_reasons import CompactionFailureReason
from fleetwright_agent.turn.compaction.pairs import active_request, is_torn
from fleetwright_agent.turn.compaction.view import View, visible_messages


def rejection_reason(
    messages: Sequence[AnyMessage], view: View, *, prior_sessions: str, before: int, after: int, min_gain: float
) -> CompactionFailureReason | None:
    """Check the view as it will be shown, and return the reason for a rejection, or None.

    Args:
        messages: The stored conversation.
        view: The new view of it.
        prior_sessions: The text that precedes the view in the prompt.
        before: Tokens of the current prompt, measured in the same way as `after`.
        after: Tokens of the prompt with the new view.
        min_gain: The fraction by which the prompt must shrink.
    """
    visible = visible_messages(messages, view, prior_sessions)
    if is_torn(visible):
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
