"""Approvals that the operator delivers to complete agents: what runs, what is recorded, and what survives a kill."""

import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.support.agent.operator_client import TOKEN, Operator, operator_document
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.waiting import within

ANSWER = "https://fleetwright.dev/a2a/answer/v1"
TOOL_CALL = "https://proto-labs.ai/a2a/ext/tool-call-v1"
GATED = {"approvals": {"tools": ["house__charge_card"]}}
REVIEWED = {"approvals": {"tools": ["house__charge_card"], "by": "Reviewers"}}


@pytest.fixture(autouse=True)
def operator_tokens(mounted: Any) -> None:
    mounted.write(mounted.layout.operator_file, operator_document(TOKEN))


async def only(guest: Any) -> dict[str, Any]:
    (approval,) = await Operator(guest.url).open()
    return approval


async def test_approved_call_runs_as_asked(agent, states, house):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        approval = await only(guest)
        assert (approval["tool"], approval["arguments"]) == ("house__charge_card", {"amount": 30})
        assert (approval["title"], approval["preview"]) == ("Run house__charge_card?", '{"amount": 30}')
        assert (await Operator(guest.url).decide(approval)).status_code == 200
        done = await guest.rested(task)
    assert states(done) == "completed"
    assert house.ledger == ["charged 30"]


async def test_reason_of_a_denial_reaches_the_model(agent, states, house):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        await Operator(guest.url).decide(await only(guest), "Denied", reason="The budget is used up.")
        done = await guest.rested(task)
    assert states(done) == "completed"
    assert "was not approved and has not run" in read_answer(done)
    assert "the reason of the person: The budget is used up." in read_answer(done)
    assert house.ledger == []


async def subscribed(guest: Any, task: dict[str, Any], **edit: Any) -> AsyncIterator[dict[str, Any]]:
    """Approve the call as soon as the stream of the task is open, and yield the events."""
    events = guest.events("SubscribeToTask", {"id": task["id"]})
    yield await anext(events)
    edited = await Operator(guest.url).decide(await only(guest), **edit)
    assert edited.json() == {"outcome": "accepted"}
    async for event in events:
        yield event


async def test_edited_arguments_run_and_are_recorded(agent, states, house, mounted):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        events = [event async for event in subscribed(guest, task, arguments={"amount": 12})]
        done = await guest.rested(task)
    assert states(done) == "completed"
    assert house.ledger == ["charged 12"]
    assert '[A person changed the arguments of this call to {"amount": 12}]' in read_answer(done)
    (said,) = (each for each in done["history"] if ANSWER in each.get("metadata", {}))
    assert said["metadata"][ANSWER]["edited"] is True
    assert said["parts"][1]["data"] == {"approved": True, "arguments": {"amount": 12}}
    lines = read_audit_lines(mounted)
    assert [line["args"] for line in lines if line["event"] == "tool_call"] == [{"amount": 12}]
    metadata = (
        event.get("statusUpdate", {}).get("status", {}).get("message", {}).get("metadata", {}) for event in events
    )
    calls = [each[TOOL_CALL] for each in metadata if TOOL_CALL in each]
    assert [call["args"] for call in calls if call["phase"] == "started"] == ['{"amount": 12}']


LIMITED = {"enforcement": {"arguments": [{
    "tool": "house__charge_card", "schema": {"properties": {"amount": {"maximum": 40}}},
}]}}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "arguments", "problem"),
    [
        pytest.param({}, {"amount": "much"}, "amount", id="another type than the schema's"),
        pytest.param({}, {}, "amount", id="without a required argument"),
        pytest.param(LIMITED, {"amount": 41}, "may not call house__charge_card", id="against the policy"),
    ],
)
async def test_invalid_edit_leaves_the_approval_open(agent, states, house, changes, arguments, problem):
    async with agent(**GATED, **changes) as guest:
        task = await guest.say("Charge the card 30")
        approval, operator = await only(guest), Operator(guest.url)
        refused = await operator.decide(approval, arguments=arguments)
        assert (refused.status_code, refused.json()["outcome"]) == (422, "invalid")
        assert problem in refused.json()["message"]
        assert await operator.open() == [approval]
        assert (await operator.decide(approval, arguments={"amount": 40})).status_code == 200
        assert states(await guest.rested(task)) == "completed"
    assert house.ledger == ["charged 40"]


@pytest.mark.parametrize(
    ("data", "charged", "problem"),
    [
        pytest.param({"approved": True, "arguments": {"amount": 12}}, ["charged 12"], None, id="arguments that fit"),
        pytest.param({"approved": True, "arguments": {"amount": "much"}}, [], "amount", id="arguments that do not fit"),
        pytest.param({"approved": False, "arguments": {"amount": 12}}, [], None, id="arguments of a denial"),
        pytest.param({"approved": True, "arguments": "12"}, [], "arguments", id="arguments that are no object"),
        pytest.param({"approved": True, "args": {"amount": 12}}, [], '"args"', id="args"),
        pytest.param({"approved": True, "edits": {"amount": 12}}, [], '"edits"', id="edits"),
        pytest.param({"approved": True, "Arguments": {"amount": 12}}, [], '"Arguments"', id="Arguments"),
        pytest.param({"decision": "approve", "edited_arguments": {}}, [], '"edited_arguments"', id="edited_arguments"),
        pytest.param({"answer": "yes", "amount": 12}, [], '"amount"', id="an argument beside the decision"),
        pytest.param({"approved": False, "args": {"amount": 12}}, [], None, id="a denial with another key"),
    ],
)
async def test_caller_answers_with_edited_arguments(agent, message, states, house, data, charged, problem):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        told = await guest.call("SendMessage", message(None, data=data, taskId=task["id"]))
        if problem:
            assert told["error"]["code"] == -32602
            assert problem in told["error"]["message"]
            assert states(await guest.get(task)) == "input-required"
        else:
            assert states(told["result"]["task"]) == "completed"
    assert house.ledger == charged


async def test_edits_in_a_second_part_leave_the_approval_open(agent, message, states, house):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        answer = message(None, data={"approved": True}, taskId=task["id"])
        answer["message"]["parts"].append({"data": {"arguments": {"amount": 12}}})
        told = await guest.call("SendMessage", answer)
        assert told["error"]["message"].startswith("message.parts: a decision is one data part"), told
        assert states(await guest.get(task)) == "input-required"
    assert house.ledger == []


async def test_edit_is_checked_again_when_the_call_runs(agent, agent_process, states, house):
    """The process is killed after it has accepted the edit, and the next one has a stricter policy."""
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
    async with agent_process(**GATED) as guest:
        approval = await only(guest)
        # The second process has not loaded its turn, so the check of the arguments loads it.
        assert (await Operator(guest.url).decide(approval)).status_code == 200
        await guest.kill()
    strict = {"enforcement": {"deny": ["house__charge_card"]}}
    async with agent(**GATED, **strict) as guest:
        done = await guest.rested(task)
    assert states(done) == "completed"
    assert house.ledger == []


@pytest.mark.parametrize(
    ("decision", "charged"),
    [
        pytest.param("Approved", ["charged 30"], id="an approval"),
        pytest.param("Denied", [], id="a denial"),
    ],
)
async def test_decision_survives_a_kill_before_the_tool_runs(agent_process, states, house, decision, charged):
    """The second process waits for the answer of a silent server, so the kill comes before the tool runs."""
    async with agent_process(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        await guest.kill()
    silent = socket.create_server(("127.0.0.1", 0))
    server = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"}
    async with agent_process(server=server, **GATED) as guest:
        approval = await only(guest)
        assert (await Operator(guest.url).decide(approval, decision)).json() == {"outcome": "accepted"}
        await guest.kill()
    silent.close()
    assert house.ledger == []
    async with agent_process(**GATED) as guest:
        operator = Operator(guest.url)
        assert (await operator.decide(approval, decision)).json() == {"outcome": "accepted"}
        late = await operator.decide(approval, "Approved" if decision == "Denied" else "Denied")
        assert (late.status_code, late.json()["decidedBy"]) == (409, "alice")
        done = await guest.rested(task)
        assert await operator.open() == []
    assert states(done) == "completed"
    assert house.ledger == charged


async def test_reviewers_decide_for_every_caller(agent, states, house, mounted, callers):
    tokens = {"agent:team/peer": "token-of-peer", "agent:team/echo": "self", "client:default": "token-of-default"}
    mounted.write(mounted.layout.callers_file, callers(tokens))
    async with agent(**REVIEWED) as guest:
        for number, owner in enumerate(tokens, start=1):
            caller = guest.by(owner)
            task = await caller.say(f"Charge the card {number}")
            assert states(task) == "input-required"
            said = {"messageId": f"yes-{number}", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"]}
            refused = await caller.call("SendMessage", {"message": said})
            assert "may not approve or decline" in refused["error"]["message"]
            approval = await only(guest)
            assert approval["requestedBy"] == owner
            await Operator(guest.url).decide(approval)
            assert states(await caller.rested(task)) == "completed"
    assert house.ledger == ["charged 1", "charged 2", "charged 3"]


async def test_open_approvals_follow_the_questions_of_a_turn(agent, states, house):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30; charge the card 50 [[together]]")
        operator = Operator(guest.url)
        first = await only(guest)
        version = (await operator.read()).json()["version"]
        await operator.decide(first)
        async with within("the list shows the second question"):
            while True:
                page = (await operator.read(after=version, wait=25)).json()
                version = page["version"]
                if page["open"]:
                    break
        (second,) = page["open"]
        assert second["arguments"] == {"amount": 50}
        await operator.decide(second, "Denied")
        assert states(await guest.rested(task)) == "completed"
    assert house.ledger == ["charged 30"]
