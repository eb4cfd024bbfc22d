"""Responses of Agent Inbox to an approval: which of them change the arguments, and which are refused.

The user interface turns every value that is not a text into JSON, as `JSON.stringify` writes it.
"""

from typing import Any

import pytest

from fleetwright_a2a.human_input.agent_inbox import InboxAction, InboxResponse
from fleetwright_agent.protocol.frames import InterruptKind
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.tasks.human_input.agent_inbox import inbox_answer

ASKED = {"text": "foo", "number": 30, "flag": True, "list": [1, "\u00e9"], "object": {"a": 1}, "none": None}


def answer(action: InboxAction, arguments: Any, asked: Any = ASKED) -> Any:
    pause = TaskInterrupt("1", InterruptKind.APPROVAL, "pay", 0, arguments=asked)
    return inbox_answer(InboxResponse(action, tool="pay", arguments=arguments), pause)


@pytest.mark.parametrize("action", [InboxAction.ACCEPT, InboxAction.EDIT])
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(ASKED, id="the same values"),
        pytest.param(
            {
                "text": "foo",
                "number": "30",
                "flag": "true",
                "list": '[1,"\u00e9"]',
                "object": '{"a":1}',
                "none": "null",
            },
            id="JSON texts without spaces",
        ),
        pytest.param(
            {"text": "foo", "number": 30.0, "flag": True, "list": '[1, "\\u00e9"]', "object": '{"a": 1}', "none": None},
            id="JSON texts with spaces and escapes",
        ),
    ],
)
def test_unchanged_arguments_approve_the_call(action: InboxAction, arguments: Any) -> None:
    assert answer(action, arguments) == {"approved": True}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("text", '"foo"', id="a text in quotation marks"),
        pytest.param("text", "30", id="a text of digits"),
        pytest.param("number", "31", id="another number"),
        pytest.param("number", True, id="a truth value instead of a number"),
        pytest.param("flag", 1, id="a number instead of a truth value"),
        pytest.param("list", "[1]", id="a shorter list"),
        pytest.param("object", "{", id="no JSON"),
    ],
)
def test_changed_argument_is_an_edit(name: str, value: Any) -> None:
    edited = {**ASKED, name: value}
    assert answer(InboxAction.EDIT, edited)["arguments"] == edited
    with pytest.raises(ValueError, match="send an edit"):
        answer(InboxAction.ACCEPT, edited)


def test_acceptance_of_hidden_arguments_may_repeat_the_empty_ones() -> None:
    assert answer(InboxAction.ACCEPT, {}, asked=None) == {"approved": True}
    assert answer(InboxAction.EDIT, {}, asked=None)["arguments"] == {}
    with pytest.raises(ValueError, match="send an edit"):
        answer(InboxAction.ACCEPT, {"number": 1}, asked=None)
