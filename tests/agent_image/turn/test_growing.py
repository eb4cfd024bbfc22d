"""Merging of messages: the result equals LangGraph's, and the previous messages keep their positions."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from fleetwright_agent.turn.context import merge_messages

BEFORE = (HumanMessage("one", id="1"), AIMessage("two", id="2"))


@pytest.mark.parametrize("before", [pytest.param(BEFORE, id="behind others"), pytest.param((), id="first")])
@pytest.mark.parametrize(
    "news",
    [
        pytest.param([HumanMessage("three")], id="a message without an id"),
        pytest.param([HumanMessage("three", id="3"), AIMessage("four", id="4")], id="messages with ids of their own"),
        pytest.param([AIMessage("instead", id="2"), HumanMessage("three")], id="one in place of another"),
        pytest.param([AIMessage("a", id="3"), AIMessage("b", id="3")], id="two with one id"),
        pytest.param(HumanMessage("three", id="3"), id="a message that is in no list"),
        pytest.param([("user", "three")], id="words that are no message yet"),
        pytest.param([AIMessageChunk("three", id="3")], id="a message that was streamed"),
        pytest.param([RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("three")], id="all others are taken away"),
        pytest.param([], id="nothing"),
    ],
)
def test_merge_messages_equals_langgraph(before: Sequence[AnyMessage], news: Any) -> None:
    wanted: Any = add_messages(list(before), news)
    found = merge_messages(before, news)
    assert [(type(each), each.content) for each in found] == [(type(each), each.content) for each in wanted]
    assert all(each.id for each in found)
    assert len(before) in (0, 2)


def test_merge_messages_refuses_removal_of_an_unknown_message() -> None:
    with pytest.raises(ValueError, match="doesn't exist"):
        merge_messages(BEFORE, [RemoveMessage("9")])
