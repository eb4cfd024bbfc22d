"""Calls and their results belong together: providers refuse a history that tears them apart. Pure."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage


def repaired(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same history with every call answered and no answer without its call (T-06, PA-092).

    A turn that was cut short leaves calls without results. Providers refuse such a history, and the next
    turn would be lost with it.
    """
    if not torn(messages):
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


def torn(messages: Sequence[AnyMessage]) -> bool:
    """Whether calls are without their results right behind them, in their order, or a result without its call."""
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
    """Whether the newest message of the model still waits for a result: something is going on."""
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
    """What the caller asked for last; it is shown to the letter whatever happens around it."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)
