"""Clients that ask and answer in other formats: kagent's hitl/v1, and LangChain's Agent Inbox."""

import json
from typing import Any

import pytest
from tests.support.agent.reports import read_answer

INBOX = "https://fleetwright.dev/a2a/agent-inbox/v1"
KAGENT = "https://kagent.dev/extensions/hitl/v1"
ANSWER = "https://fleetwright.dev/a2a/answer/v1"
GATED = {"approvals": {"tools": ["house__charge_card"]}}


async def said(guest: Any, message: dict[str, Any], *, activates: str = "") -> Any:
    """Send a message, and return the HTTP response."""
    async with guest.http() as http:
        headers = {"A2A-Extensions": activates} if activates else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
        return await http.post("/a2a", json=body, headers=headers)


async def asked(guest: Any, message: Any, text: str, extension: str = KAGENT) -> dict[str, Any]:
    response = await said(guest, message(text), activates=extension)
    assert response.headers["A2A-Extensions"] == extension
    task: dict[str, Any] = response.json()["result"]["task"]
    return task


def request_in(task: dict[str, Any]) -> dict[str, Any]:
    message = task["status"]["message"]
    assert KAGENT in message["extensions"]
    payload: dict[str, Any] = message["metadata"][KAGENT]
    return payload


def decision(task: dict[str, Any], payload: Any, **changes: Any) -> dict[str, Any]:
    """Return a message with a decision. A2A requires a part, which may be empty."""
    message = {
        "messageId": f"decision-{hash(json.dumps(payload))}",
        "role": "ROLE_USER",
        "taskId": task["id"],
        "contextId": task["contextId"],
        "extensions": [KAGENT],
        "metadata": {KAGENT: payload},
        "parts": [{"text": ""}],
    }
    return {"message": message | changes}


def approval(identity: str, *, approved: bool = True, **members: Any) -> dict[str, Any]:
    return {"type": "tool_approval_response", "approvals": [{"id": identity, "approved": approved, **members}]}


async def test_kagent_request_describes_the_call(agent, message, states):
    async with agent(**GATED) as guest:
        task = await asked(guest, message, "Charge the card 30")
        request = request_in(task)
        (tool,) = request["tools"]
        assert request == {
            "type": "tool_approval_request",
            "hint": "Run house__charge_card?",
            "tools": [
                {"id": tool["id"], "call_id": tool["call_id"], "name": "house__charge_card", "args": {"amount": 30}}
            ],
        }
        assert tool["call_id"]
        unasked = await guest.say("Charge the card 30")
    assert KAGENT not in unasked["status"]["message"]["metadata"]


@pytest.mark.parametrize(
    ("members", "charged", "told"),
    [
        pytest.param({"approved": True}, ["charged 30"], "The card is charged 30.", id="an approval"),
        pytest.param(
            {"approved": False, "rejection_reason": "too much"}, [], "reason of the person: too much", id="a denial"
        ),
    ],
)
async def test_kagent_decision_is_an_answer(agent, message, states, house, members, charged, told):
    async with agent(**GATED) as guest:
        task = await asked(guest, message, "Charge the card 30")
        identity = request_in(task)["tools"][0]["id"]
        response = await said(guest, decision(task, approval(identity, **members)))
        done = response.json()["result"]["task"]
    assert states(done) == "completed"
    assert told in read_answer(done)
    assert house.ledger == charged
    (stamp,) = (each["metadata"][ANSWER] for each in done["history"] if ANSWER in each.get("metadata", {}))
    assert (stamp["by"], stamp["ask"]) == ("client:default", identity)
    assert stamp["decision"] == ("approved" if members["approved"] else "declined")


@pytest.mark.parametrize(
    ("payload", "changes", "problem"),
    [
        pytest.param({"type": "tool_approval_response", "approvals": []}, {}, "exactly once", id="an omission"),
        pytest.param(approval("another"), {}, "exactly once", id="another call"),
        pytest.param({"type": "ask_user_response", "id": "1", "answers": []}, {}, "type must be", id="another type"),
        pytest.param(approval("another"), {"extensions": []}, "message.extensions must list", id="no extension"),
        pytest.param("yes", {}, "must be an object", id="a text"),
    ],
)
async def test_invalid_kagent_decision_leaves_the_task_waiting(
    agent, message, states, house, payload, changes, problem
):
    async with agent(**GATED) as guest:
        task = await asked(guest, message, "Charge the card 30")
        error = (await said(guest, decision(task, payload, **changes))).json()["error"]
        assert error["code"] == -32602
        assert problem in error["message"]
        assert states(await guest.get(task)) == "input-required"
    assert house.ledger == []


async def test_kagent_request_stays_active_after_a_restart_and_an_answer(agent_process, message, states, house):
    """The header activates the extension for the whole task, because a killed process knows no header."""
    async with agent_process(**GATED) as guest:
        task = await asked(guest, message, "Charge the card 30; charge the card 50 [[together]]")
        await guest.kill()
    async with agent_process(**GATED) as guest:
        plain = await guest.say("no", taskId=task["id"])
        assert request_in(plain)["tools"][0]["args"] == {"amount": 50}
        identity = request_in(plain)["tools"][0]["id"]
        done = (await said(guest, decision(plain, approval(identity)))).json()["result"]["task"]
    assert states(done) == "completed"
    assert house.ledger == ["charged 50"]


async def test_kagent_question_is_answered_by_position(agent, message, states):
    async with agent() as guest:
        task = await asked(guest, message, "Ask the human about dessert")
        request = request_in(task)
        assert request == {
            "type": "ask_user_request",
            "id": request["id"],
            "questions": [{"question": "dessert", "choices": [], "multiple": False}],
        }
        payload = {"type": "ask_user_response", "id": request["id"], "answers": [{"answer": ["Cake", "and tea"]}]}
        done = (await said(guest, decision(task, payload))).json()["result"]["task"]
    assert states(done) == "completed"
    assert "Cake, and tea" in read_answer(done)


async def test_kagent_form_has_a_question_for_each_field(agent, message, states):
    fields = {
        "city": {"type": "string", "title": "City", "enum": ["Ghent", "Basel"]},
        "days": {"type": "array", "items": {"type": "integer"}},
        "guests": {"type": "integer", "description": "how many"},
    }
    steps = [{"schema": {"type": "object", "properties": fields}}]
    async with agent() as guest:
        task = await asked(guest, message, f'Request the user input "Delivery" with {json.dumps(steps)}')
        request = request_in(task)
        assert request["questions"] == [
            {"question": "City", "choices": ["Ghent", "Basel"], "multiple": False},
            {"question": "days", "choices": [], "multiple": True},
            {"question": "guests: how many", "choices": [], "multiple": False},
        ]
        answers = [{"answer": ["Ghent"]}, {"answer": ["3", "5"]}, {"answer": ["4"]}]
        payload = {"type": "ask_user_response", "id": request["id"], "answers": answers}
        refused = await said(guest, decision(task, payload | {"answers": answers[:2]}))
        assert "one entry for each of the 3" in refused.json()["error"]["message"]
        done = (await said(guest, decision(task, payload))).json()["result"]["task"]
    assert states(done) == "completed"
    assert '{"city": "Ghent", "days": [3, 5], "guests": 4}' in read_answer(done)


async def test_kagent_extension_is_not_active_without_questions(agent, message):
    async with agent(askHuman=False) as guest:
        response = await said(guest, message("Book table for 2"), activates=KAGENT)
    assert "A2A-Extensions" not in response.headers


def interrupt_in(task: dict[str, Any]) -> dict[str, Any]:
    message = task["status"]["message"]
    assert INBOX in message["extensions"]
    interrupt: dict[str, Any] = message["metadata"][INBOX]
    return interrupt


def permissions(*permitted: str) -> dict[str, bool]:
    return {f"allow_{name}": name in permitted for name in ("ignore", "respond", "edit", "accept")}


ALL = ("ignore", "respond", "edit", "accept")


@pytest.mark.parametrize(
    ("text", "action_request", "permitted", "description"),
    [
        pytest.param(
            "Charge the card 30",
            {"action": "house__charge_card", "args": {"amount": 30}},
            ALL,
            "Run house__charge_card?",
            id="an approval",
        ),
        pytest.param(
            "Ask the human about dessert",
            {"action": "ask_human", "args": {"question": "dessert"}},
            ("ignore", "respond"),
            "dessert",
            id="a question",
        ),
        pytest.param(
            'Request the user input "Delivery" with [{"schema": {"type": "object", "properties":'
            ' {"guests": {"type": "integer", "default": 2}, "city": {"type": "string"}}}}]',
            {"action": "request_user_input", "args": {"city": "", "guests": 2}},
            ("ignore", "respond", "edit"),
            "Delivery",
            id="a form",
        ),
    ],
)
async def test_inbox_interrupt_describes_the_question(agent, message, text, action_request, permitted, description):
    async with agent(**GATED) as guest:
        interrupt = interrupt_in(await asked(guest, message, text, INBOX))
        unasked = await guest.say(text)
    assert description in interrupt.pop("description")
    assert interrupt == {"action_request": action_request, "config": permissions(*permitted)}
    assert INBOX not in unasked["status"]["message"]["metadata"]


async def test_inbox_interrupt_permits_no_response_if_reviewers_decide(agent, message):
    async with agent(approvals={"tools": ["house__charge_card"], "by": "Reviewers"}) as guest:
        interrupt = interrupt_in(await asked(guest, message, "Charge the card 30", INBOX))
    assert interrupt["config"] == permissions()


async def test_inbox_stays_active_after_a_restart_and_an_answer(agent_process, message, states, house):
    async with agent_process(**GATED) as guest:
        task = await asked(guest, message, "Charge the card 30; charge the card 50 [[together]]", INBOX)
        request = interrupt_in(task)["action_request"]
        await guest.kill()
    async with agent_process(**GATED) as guest:
        waiting = await guest.say(None, data=[{"type": "accept", "args": request}], taskId=task["id"])
        request = interrupt_in(waiting)["action_request"]
        assert request["args"] == {"amount": 50}
        edit = {"type": "edit", "args": request | {"args": {"amount": "45"}}}
        done = await guest.say(None, data=[edit], taskId=task["id"])
    assert states(done) == "completed"
    assert house.ledger == ["charged 30", "charged 45"]


def action(**args: Any) -> dict[str, Any]:
    return {"action": "house__charge_card", "args": args}


@pytest.mark.parametrize(
    ("response", "charged", "told"),
    [
        pytest.param({"type": "accept", "args": None}, ["charged 30"], "The card is charged 30.", id="accept"),
        pytest.param(
            {"type": "accept", "args": action(amount="30")},
            ["charged 30"],
            "The card is charged 30.",
            id="accept with the arguments",
        ),
        pytest.param(
            {"type": "edit", "args": action(amount="12")},
            ["charged 12"],
            'changed the arguments of this call to {"amount": 12}',
            id="edit",
        ),
        pytest.param(
            {"type": "edit", "args": action(amount="30")},
            ["charged 30"],
            "The card is charged 30.",
            id="an edit that changes nothing",
        ),
        pytest.param({"type": "response", "args": "Too much."}, [], "the person: Too much.", id="response"),
        pytest.param({"type": "ignore", "args": None}, [], "was not approved", id="ignore"),
    ],
)
@pytest.mark.parametrize("form", ["data", "list", "text"])
async def test_inbox_response_answers_an_approval(agent, states, house, response, charged, told, form):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        value = [response] if form == "list" else response
        said = {"text": json.dumps([response])} if form == "text" else {"text": None, "data": value}
        done = await guest.say(**said, taskId=task["id"])
    assert states(done) == "completed"
    assert told in read_answer(done)
    assert house.ledger == charged
    (stamp,) = (each["metadata"][ANSWER] for each in done["history"] if ANSWER in each.get("metadata", {}))
    assert stamp.get("edited", False) is (charged == ["charged 12"])


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        pytest.param({"type": "edit", "args": action(amount="much")}, "amount", id="a value of another type"),
        pytest.param({"type": "edit", "args": action()}, "amount", id="a missing argument"),
        pytest.param({"type": "edit", "args": {"action": "house__pay", "args": {}}}, "args.action", id="another tool"),
        pytest.param({"type": "accept", "args": action(amount="31")}, "send an edit", id="an acceptance that changes"),
        pytest.param({"type": "response", "args": None}, "must be a text", id="a response without text"),
    ],
)
async def test_invalid_inbox_response_leaves_the_task_waiting(agent, message, states, house, response, problem):
    async with agent(**GATED) as guest:
        task = await guest.say("Charge the card 30")
        told = await guest.call("SendMessage", message(None, data=[response], taskId=task["id"]))
        assert told["error"]["code"] == -32602
        assert problem in told["error"]["message"]
        assert states(await guest.get(task)) == "input-required"
    assert house.ledger == []


@pytest.mark.parametrize(
    ("response", "told"),
    [
        pytest.param({"type": "response", "args": "Cake"}, "Cake", id="response"),
        pytest.param({"type": "ignore", "args": None}, "The person did not answer.", id="ignore"),
    ],
)
async def test_inbox_response_answers_a_question(agent, states, response, told):
    async with agent() as guest:
        task = await guest.say("Ask the human about dessert")
        done = await guest.say(None, data=[response], taskId=task["id"])
    assert states(done) == "completed"
    assert told in read_answer(done)


async def test_inbox_acceptance_of_a_question_is_refused(agent, message, states):
    async with agent() as guest:
        task = await guest.say("Ask the human about dessert")
        told = await guest.call("SendMessage", message(None, data={"type": "accept", "args": None}, taskId=task["id"]))
        assert "type must be response or ignore" in told["error"]["message"]
        assert states(await guest.get(task)) == "input-required"


async def test_inbox_edit_fills_a_form(agent, states):
    fields = {
        "guests": {"type": "integer"},
        "days": {"type": "integer"},
        "note": {"type": "string"},
        "dish": {"type": "string", "enum": ["soup", "salad"]},
    }
    steps = [{"schema": {"type": "object", "properties": fields}}]
    async with agent() as guest:
        task = await guest.say(f'Request the user input "Delivery" with {json.dumps(steps)}')
        values = {"guests": "4", "days": "", "note": "", "dish": ""}
        filled = {"type": "edit", "args": {"action": "request_user_input", "args": values}}
        done = await guest.say(None, data=[filled], taskId=task["id"])
    assert states(done) == "completed"
    found = read_answer(done)
    assert json.loads(found[found.index("{") :]) == {"guests": 4, "note": ""}
