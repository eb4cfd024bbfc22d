"""Keeps tool calls and their results together, because providers refuse a history in which one is missing. Pure."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage


def repair_pairs(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the same history with a result for each call and without results that have no call.

    An interrupted turn leaves calls without results. Providers refuse such a history, so the next turn would fail too.
    """
    if not is_torn(messages):
        return [*messages]
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    history: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        history.append(message)
        if isinstance(message, AIMessage):
            history.extend(
                answers.get(call["id"] or "") or _aborted(call["id"] or "", call["name"]) for call in message.tool_calls
            )
    return history


def _aborted(call_id: str, name: str) -> ToolMessage:
    text = "Aborted: the turn ended before this call did. Whether it took effect is unknown."
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error")


def is_torn(messages: Sequence[AnyMessage]) -> bool:
    """Return True if a call is not directly followed by its results in order, or a result has no call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return True
        elif waiting:
            return True
        elif isinstance(message, AIMessage) and message.tool_calls:
            waiting = [call["id"] or "" for call in message.tool_calls]
    return bool(waiting)


def has_open_call(messages: Sequence[AnyMessage]) -> bool:
    """Return True if a call in the model's newest message has no result yet, so that work is in progress."""
    answered: set[str] = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return any((call["id"] or "") not in answered for call in message.tool_calls)
        else:
            return False
    return False


def active_request(messages: Sequence[AnyMessage]) -> HumanMessage | None:
    """The caller's newest message, which is always shown verbatim."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
