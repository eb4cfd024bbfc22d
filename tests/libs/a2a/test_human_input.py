"""The payloads of kagent's hitl/v1, and the responses of Agent Inbox: what is accepted, and what is named as wrong."""

from typing import Any

import pytest

from fleetwright_a2a.human_input.agent_inbox import (
    InboxAction,
    InboxPermissions,
    InboxResponse,
    human_interrupt,
    inbox_response,
)
from fleetwright_a2a.human_input.kagent import (
    ToolDecision,
    UserQuestion,
    answers_of,
    ask_user_request,
    decision_of,
    tool_approval_request,
)


def approvals(*entries: Any, **members: Any) -> dict[str, Any]:
    return {"type": "tool_approval_response", "approvals": list(entries), **members}


def test_tool_approval_request_has_one_tool() -> None:
    assert tool_approval_request("1", call_id="c", tool="pay", arguments={"n": 3}, hint="Pay?") == {
        "type": "tool_approval_request",
        "hint": "Pay?",
        "tools": [{"id": "1", "call_id": "c", "name": "pay", "args": {"n": 3}}],
    }


def test_ask_user_request_has_all_members_of_a_question() -> None:
    assert ask_user_request("1", [UserQuestion("Which?", ("a", "b"), multiple=True), UserQuestion("When?")]) == {
        "type": "ask_user_request",
        "id": "1",
        "questions": [
            {"question": "Which?", "choices": ["a", "b"], "multiple": True},
            {"question": "When?", "choices": [], "multiple": False},
        ],
    }


def test_human_interrupt_has_one_action_and_what_is_permitted() -> None:
    assert human_interrupt("pay", {"n": 3}, InboxPermissions(respond=True), description="Pay?") == {
        "action_request": {"action": "pay", "args": {"n": 3}},
        "config": {"allow_ignore": False, "allow_respond": True, "allow_edit": False, "allow_accept": False},
        "description": "Pay?",
    }


@pytest.mark.parametrize(
    ("payload", "decision"),
    [
        pytest.param(approvals({"id": "1", "approved": True}), ToolDecision(True), id="an approval"),
        pytest.param(approvals({"id": "1", "approved": False}), ToolDecision(False), id="a denial"),
        pytest.param(
            approvals({"id": "1", "approved": False, "rejection_reason": "no"}),
            ToolDecision(False, "no"),
            id="a reason",
        ),
        pytest.param(
            approvals({"id": "1", "approved": False, "rejection_reason": None}), ToolDecision(False), id="no reason"
        ),
    ],
)
def test_decision_of_reads_one_decision(payload: Any, decision: ToolDecision) -> None:
    assert decision_of(payload, "1") == decision


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        pytest.param(approvals(), "approvals must name '1' exactly once", id="the decision is omitted"),
        pytest.param(approvals({"id": "2", "approved": True}), "approvals must name '1'", id="another call"),
        pytest.param(
            approvals({"id": "1", "approved": True}, {"id": "2", "approved": True}), "nothing else", id="two calls"
        ),
        pytest.param(
            approvals({"id": "1", "approved": True}, {"id": "1", "approved": False}),
            "exactly once",
            id="one call twice",
        ),
        pytest.param(approvals({"id": "1"}), "approvals: approved is missing", id="no decision"),
        pytest.param(approvals({"id": "1", "approved": "yes"}), "approved must be true or false", id="a text"),
        pytest.param(approvals({"id": "1", "approved": True, "args": {}}), "no member 'args'", id="another member"),
        pytest.param(approvals({"id": "1", "approved": True}, hint="x"), "no member 'hint'", id="a member outside"),
        pytest.param(
            approvals({"id": "1", "approved": False, "rejection_reason": 1}), "reason", id="a number as reason"
        ),
        pytest.param(approvals("1"), "approvals: it must be an object", id="an entry that is no object"),
        pytest.param({"type": "tool_approval_response", "approvals": {}}, "must be a list", id="no list"),
        pytest.param({"type": "tool_approval_response"}, "approvals is missing", id="no list at all"),
        pytest.param({"type": "ask_user_response", "id": "1", "answers": []}, "type must be", id="answers"),
        pytest.param("yes", "it must be an object", id="a text instead of an object"),
    ],
)
def test_decision_of_names_what_is_wrong(payload: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decision_of(payload, "1")


@pytest.mark.parametrize(
    ("answers", "identity", "problem"),
    [
        pytest.param([{"answer": ["a"]}, {"answer": ["b", "c"]}], "1", None, id="two answers"),
        pytest.param([{"answer": []}, {"answer": [""]}], "1", None, id="empty answers"),
        pytest.param([{"answer": ["a"]}], "1", "one entry for each of the 2", id="an answer is omitted"),
        pytest.param([{"answer": ["a"]}] * 3, "1", "one entry for each", id="too many answers"),
        pytest.param([{"answer": ["a"]}, {"answer": "b"}], "1", "must be a list of texts", id="a text"),
        pytest.param([{"answer": ["a"]}, {"answer": [1]}], "1", "must be a list of texts", id="a number"),
        pytest.param([{"answer": ["a"]}, {}], "1", "answer is missing", id="an empty entry"),
        pytest.param([{"answer": ["a"]}, {"answer": ["b"]}], "2", "id must be '1'", id="another request"),
        pytest.param({}, "1", "must be a list", id="no list"),
    ],
)
def test_answers_of_are_positional(answers: Any, identity: str, problem: str | None) -> None:
    payload = {"type": "ask_user_response", "id": identity, "answers": answers}
    if problem is None:
        assert answers_of(payload, "1", most=2) == tuple(tuple(each["answer"]) for each in answers)
    else:
        with pytest.raises(ValueError, match=problem):
            answers_of(payload, "1", most=2)


EDIT = {"action": "pay", "args": {"n": "4"}}


@pytest.mark.parametrize(
    ("value", "response"),
    [
        pytest.param({"type": "accept", "args": None}, InboxResponse(InboxAction.ACCEPT), id="accept"),
        pytest.param([{"type": "accept", "args": None}], InboxResponse(InboxAction.ACCEPT), id="a list of one"),
        pytest.param(
            {"type": "accept", "args": EDIT},
            InboxResponse(InboxAction.ACCEPT, tool="pay", arguments={"n": "4"}),
            id="accept with the arguments",
        ),
        pytest.param({"type": "ignore", "args": None}, InboxResponse(InboxAction.IGNORE), id="ignore"),
        pytest.param({"type": "ignore", "args": EDIT}, InboxResponse(InboxAction.IGNORE), id="ignore with arguments"),
        pytest.param({"type": "response", "args": "no"}, InboxResponse(InboxAction.RESPONSE, "no"), id="response"),
        pytest.param(
            {"type": "edit", "args": EDIT}, InboxResponse(InboxAction.EDIT, tool="pay", arguments={"n": "4"}), id="edit"
        ),
        pytest.param({"type": "respond", "args": "no"}, None, id="another word"),
        pytest.param({"type": "accept"}, None, id="without args"),
        pytest.param([], None, id="an empty list"),
        pytest.param([{"type": "accept", "args": None}] * 2, None, id="a list of two"),
        pytest.param({"type": ["accept"], "args": None}, None, id="a type that is no text"),
        pytest.param("accept", None, id="a text"),
    ],
)
def test_inbox_response_recognises_its_format(value: Any, response: InboxResponse | None) -> None:
    assert inbox_response(value) == response


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param({"type": "response", "args": None}, "must be a text", id="a response without text"),
        pytest.param({"type": "edit", "args": None}, "must have action and args", id="an edit without arguments"),
        pytest.param({"type": "edit", "args": "x"}, "must be an object", id="an edit with a text"),
        pytest.param({"type": "edit", "args": {"args": {}}}, "with action and args", id="an edit without a tool"),
        pytest.param(
            {"type": "edit", "args": EDIT, "n": "5"}, "a response has no member 'n'", id="a member beside args"
        ),
        pytest.param({"type": "edit", "args": {"action": "pay", "args": []}}, "args.args", id="a list of arguments"),
    ],
)
def test_inbox_response_names_what_is_wrong(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        inbox_response(value)
