"""Approvals that an executor of the a2a-sdk asks for: they take the same routes, with the same guarantees."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from google.protobuf.json_format import MessageToDict

Open = Callable[..., Any]
ASK = "https://fleetwright.dev/a2a/ask/v1"
ANSWER = "https://fleetwright.dev/a2a/answer/v1"
YES = {"messageId": "m-2", "role": "ROLE_USER", "parts": [{"text": "yes"}]}
COMPLETED, INPUT_REQUIRED = "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"


class Bank(AgentExecutor):
    """Wires an amount after an approval."""

    def __init__(self, **ask: Any) -> None:
        self.ask = {"id": "ask-1", "kind": "approval", "tool": "wire_money", "arguments": {"amount": 30}, **ask}
        self.replies: list[Any] = []
        self.texts: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        assert context.message is not None
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            question = task.new_agent_message([Part(text="May I wire 30?")])
            question.metadata.update({ASK: self.ask})
            await task.requires_input(question)
            return
        self.replies += [MessageToDict(part.data) for part in context.message.parts if part.HasField("data")]
        self.texts.append(context.get_user_input())
        await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing to stop."""


class CarefulBank(Bank):
    """Runs edited arguments, up to a limit."""

    async def edit_problem(self, task_id: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
        if tool != "wire_money" or not task_id:
            return "another tool"
        return None if arguments["amount"] <= 40 else "the amount is over the limit"


async def test_executor_approval_is_listed_and_decided(open_door: Open, operator_of: Any) -> None:
    bank = Bank()
    door = await open_door(executor=bank)
    operator = operator_of(door.url)
    task = await door.say("wire")
    assert task["status"]["state"] == INPUT_REQUIRED
    (approval,) = await operator.open()
    created, expires = approval.pop("createdAt"), approval.pop("expiresAt")
    assert expires > created > "2026"
    digest = approval.pop("argumentsDigest")
    assert approval == {
        "task": task["id"],
        "context": task["contextId"],
        "ask": "ask-1",
        "tool": "wire_money",
        "title": "Run wire_money?",
        "preview": "May I wire 30?",
        "arguments": {"amount": 30},
        "requestedBy": "client:default",
        "chain": [],
    }
    body = {"ask": "ask-1", "task": task["id"], "argumentsDigest": digest}
    assert (await operator.decide(body, reason="fine")).json() == {"outcome": "accepted"}
    done = await door.until(task["id"], COMPLETED)
    assert bank.replies == [{"approved": True, "reason": "fine"}]
    assert bank.texts == ["approved"]
    (stamp,) = (each["metadata"][ANSWER] for each in done["history"] if ANSWER in each.get("metadata", {}))
    assert (stamp["by"], stamp["decision"], stamp["tool"]) == ("user:alice", "approved", "wire_money")
    assert (await operator.decide(body, "Denied")).status_code == 409
    assert await operator.open() == []


async def test_executor_learns_why_an_approval_is_denied(open_door: Open, operator_of: Any) -> None:
    bank = Bank()
    door = await open_door(executor=bank)
    task = await door.say("wire")
    (approval,) = await operator_of(door.url).open()
    await operator_of(door.url).decide(approval, "Denied", reason="not today")
    await door.until(task["id"], COMPLETED)
    assert (bank.replies, bank.texts) == ([{"approved": False, "reason": "not today"}], ["declined"])


@pytest.mark.parametrize(
    ("bank", "amount", "problem"),
    [
        pytest.param(Bank(), 20, "only with the arguments", id="an executor that checks no edits"),
        pytest.param(CarefulBank(), 41, "over the limit", id="an edit that the executor refuses"),
        pytest.param(CarefulBank(), None, "could not check", id="an edit that breaks the check"),
        pytest.param(CarefulBank(), 40, None, id="an edit that the executor accepts"),
    ],
)
async def test_executor_checks_edited_arguments(
    open_door: Open, operator_of: Any, bank: Bank, amount: int | None, problem: str | None
) -> None:
    door = await open_door(executor=bank)
    task = await door.say("wire")
    (approval,) = await operator_of(door.url).open()
    arguments = {} if amount is None else {"amount": amount}
    answer = await operator_of(door.url).decide(approval, arguments=arguments)
    if problem is None:
        assert answer.json() == {"outcome": "accepted"}
        await door.until(task["id"], COMPLETED)
        assert bank.replies == [{"approved": True, "arguments": {"amount": amount}}]
    else:
        assert (answer.status_code, answer.json()["outcome"]) == (422, "invalid")
        assert problem in answer.json()["message"]
        assert (await door.get(task["id"]))["status"]["state"] == INPUT_REQUIRED


async def test_executor_approval_expires(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"expirySeconds": 1}))
    bank = Bank()
    door = await open_door(executor=bank, retry_seconds=0.1)
    task = await door.say("wire")
    await door.until(task["id"], COMPLETED)
    denial = {"approved": False, "expired": True, "reason": "The approval was not given in time."}
    assert (bank.replies, bank.texts) == ([denial], ["declined"])


class StubbornBank(Bank):
    """Asks again after each answer, with the same id."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        self.texts.append(context.get_user_input())
        task = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        question = task.new_agent_message([Part(text="May I wire 30?")])
        question.metadata.update({ASK: self.ask})
        await task.requires_input(question)


async def test_executor_that_always_asks_too_late_ends(open_door: Open) -> None:
    bank = StubbornBank(expires="2026-01-01T00:00:00+00:00")
    door = await open_door(executor=bank, retry_seconds=0.1)
    task = await door.say("wire")
    ended = await door.until(task["id"], "TASK_STATE_FAILED")
    assert ended["status"]["message"]["metadata"]["reason"] == "approval_expired"
    assert bank.texts == ["wire", "declined"]


async def test_executor_question_with_a_deadline_fails(open_door: Open) -> None:
    """Only the runtime's own denial of an approval continues a task. The runtime has no answer to a question."""
    bank = Bank(kind="question", expires="2026-01-01T00:00:00+00:00")
    door = await open_door(executor=bank, retry_seconds=0.1)
    task = await door.say("wire")
    ended = await door.until(task["id"], "TASK_STATE_FAILED")
    assert ended["status"]["message"]["metadata"]["reason"] == "approval_expired"
    assert bank.replies == []


@pytest.mark.parametrize(
    ("by", "owner", "refused"),
    [
        pytest.param("Clients", "client:default", False, id="a client"),
        pytest.param("Clients", "agent:team/peer", True, id="an agent"),
        pytest.param("Reviewers", "client:default", True, id="a client where reviewers decide"),
    ],
)
async def test_executor_approval_needs_the_right_caller(
    open_door: Open, mounted: Any, documents: Any, by: str, owner: str, refused: bool
) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"by": by}))
    bank = Bank()
    door = await open_door(executor=bank)
    task = await door.say("wire", owner=owner)
    assert task["status"]["message"]["metadata"][ASK].get("by") == ("Reviewers" if by == "Reviewers" else None)
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"]}
    answer = await door.call("SendMessage", {"message": message}, owner=owner)
    assert ("error" in answer) is refused
    assert bank.texts == ([] if refused else ["yes"])


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param({"id": 7}, id="an id that is no text"),
        pytest.param({"id": ""}, id="an empty id"),
        pytest.param({"tool": None}, id="a tool that is no text"),
        pytest.param({"kind": "question"}, id="a question"),
        pytest.param({"expires": "soon"}, id="a deadline that is none"),
    ],
)
async def test_unusable_approval_of_an_executor_is_not_listed(
    open_door: Open, operator_of: Any, ask: dict[str, Any]
) -> None:
    door = await open_door(executor=Bank(**ask))
    task = await door.say("wire")
    assert task["status"]["state"] == INPUT_REQUIRED
    assert await operator_of(door.url).open() == []


async def test_executor_digest_is_that_of_its_arguments(open_door: Open, operator_of: Any) -> None:
    """A digest that belongs to other arguments would let a person approve what the person has not seen."""
    door = await open_door(executor=Bank(argumentsDigest=f"sha256:{'0' * 64}"))
    await door.say("wire")
    (approval,) = await operator_of(door.url).open()
    forged = {**approval, "argumentsDigest": f"sha256:{'0' * 64}"}
    assert (await operator_of(door.url).decide(forged)).json() == {"outcome": "changed"}
    assert (await operator_of(door.url).decide(approval)).status_code == 200


async def test_decision_about_an_executor_survives_a_restart(open_door: Open, operator_of: Any) -> None:
    door = await open_door(executor=Bank())
    task = await door.say("wire")
    await door.app.drain()
    await door.app.aclose()
    bank = Bank()
    again = await open_door(executor=bank)
    (approval,) = await operator_of(again.url).open()
    answers = await asyncio.gather(*[operator_of(again.url).decide(approval) for _ in range(3)])
    assert [answer.status_code for answer in answers] == [200] * 3
    await again.until(task["id"], COMPLETED)
    assert bank.replies == [{"approved": True}]


async def test_executor_approval_is_refused_to_a_role_without_approval(
    open_door: Open, operator_of: Any, mounted: Any, documents: Any
) -> None:
    roles = [{"callers": ["client:default"], "role": "NoApproval"}]
    mounted.write(mounted.layout.config_file, documents(callerRoles=roles))
    bank = Bank()
    door = await open_door(executor=bank)
    task = await door.say("wire")
    refused = await door.call("SendMessage", {"message": {**YES, "taskId": task["id"]}})
    assert "This caller may not approve or decline" in refused["error"]["message"]
    assert bank.texts == []
    (approval,) = await operator_of(door.url).open()
    assert (await operator_of(door.url).decide(approval)).status_code == 200
    await door.until(task["id"], COMPLETED)
    assert bank.texts == ["approved"]
