"""The payloads of kagent's extension `hitl/v1`: requests to people, and their decisions. Pure.

A task of this project waits for one question at a time, so a request has one tool, or the questions of one form. The
models of the extension forbid additional members.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

APPROVAL: Final = "tool_approval_response"
ANSWERS: Final = "ask_user_response"


@dataclass(frozen=True, slots=True)
class ToolDecision:
    """The decision about one tool call."""

    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    question: str
    choices: tuple[str, ...] = ()
    multiple: bool = False


def tool_approval_request(
    identity: str, *, call_id: str, tool: str, arguments: Mapping[str, Any], hint: str
) -> dict[str, Any]:
    call = {"id": identity, "call_id": call_id, "name": tool, "args": dict(arguments)}
    return {"type": "tool_approval_request", "hint": hint, "tools": [call]}


def ask_user_request(identity: str, questions: Sequence[UserQuestion]) -> dict[str, Any]:
    asked = [
        {"question": each.question, "choices": list(each.choices), "multiple": each.multiple} for each in questions
    ]
    return {"type": "ask_user_request", "id": identity, "questions": asked}


def decision_of(payload: Any, identity: str) -> ToolDecision:
    """Return the decision about the tool call with this id.

    Raises:
        ValueError: The payload is invalid, or does not decide about exactly this call. The text names the member.
    """
    _check_members(payload, APPROVAL, {"approvals"})
    approvals = payload["approvals"]
    if not isinstance(approvals, list):
        raise ValueError("approvals must be a list")
    for each in approvals:
        _check_item(each, {"id", "approved"}, {"rejection_reason"}, "approvals")
        if not isinstance(each["approved"], bool):
            raise ValueError("approvals.approved must be true or false")
    named = [each["id"] for each in approvals]
    if named != [identity]:
        raise ValueError(f"approvals must name {identity!r} exactly once, and nothing else")
    reason = approvals[0].get("rejection_reason")
    if not isinstance(reason, str | None):
        raise ValueError("approvals.rejection_reason must be a text")
    return ToolDecision(approvals[0]["approved"], reason or "")


def answers_of(payload: Any, identity: str, *, most: int) -> tuple[tuple[str, ...], ...]:
    """Return the answers to the questions with this id, in the order of the questions.

    Args:
        most: The number of questions.

    Raises:
        ValueError: The payload is invalid, or does not answer exactly these questions. The text names the member.
    """
    _check_members(payload, ANSWERS, {"id", "answers"})
    if payload["id"] != identity:
        raise ValueError(f"id must be {identity!r}, the id of the open request")
    answers = payload["answers"]
    if not isinstance(answers, list) or len(answers) != most:
        raise ValueError(f"answers must be a list with one entry for each of the {most} questions")
    for each in answers:
        _check_item(each, {"answer"}, set(), "answers")
        if not isinstance(each["answer"], list) or not all(isinstance(text, str) for text in each["answer"]):
            raise ValueError("answers.answer must be a list of texts")
    return tuple(tuple(each["answer"]) for each in answers)


def _check_members(payload: Any, kind: str, names: Collection[str]) -> None:
    if not isinstance(payload, Mapping):
        raise ValueError("it must be an object")
    if payload.get("type") != kind:
        raise ValueError(f"type must be {kind!r}, because the task waits for such an answer")
    _check_item(payload, {"type", *names}, set(), "")


def _check_item(item: Any, required: Collection[str], optional: Collection[str], place: str) -> None:
    where = f"{place}: " if place else ""
    if not isinstance(item, Mapping):
        raise ValueError(f"{where}it must be an object")
    if missing := sorted({*required} - item.keys()):
        raise ValueError(f"{where}{missing[0]} is missing")
    if unknown := sorted(item.keys() - {*required, *optional}):
        raise ValueError(f"{where}there is no member {unknown[0][:40]!r}")
