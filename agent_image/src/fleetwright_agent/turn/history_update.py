"""Appends new messages to a conversation. Pure.

LangGraph's own reducer indexes the whole conversation by id at each of a turn's seven steps, to replace messages with
the same id. A message without an id replaces nothing, so it is simply appended.
"""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AnyMessage, BaseMessage, RemoveMessage
from langgraph.graph.message import add_messages


def merge_messages(before: Sequence[AnyMessage], news: Any) -> list[AnyMessage]:
    """Return the same result as LangGraph's `add_messages`."""
    said = news if isinstance(news, list) else [news]
    if any(not isinstance(message, BaseMessage) or isinstance(message, RemoveMessage) for message in said):
        return _merged(before, said)
    named = {message.id for message in said if message.id is not None}
    if not before or (named and any(message.id in named for message in before)):
        return _merged(before, said)
    return [*before, *_merged([], said)]


def _merged(before: Sequence[AnyMessage], said: list[Any]) -> list[AnyMessage]:
    held: list[Any] = list(before)
    merged: Any = add_messages(held, said)
    return list(merged)
