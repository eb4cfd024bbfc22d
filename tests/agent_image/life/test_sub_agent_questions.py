"""Sub-agents whose calls need a person: the task of the caller waits with their question, over A2A."""

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.agent.scripted_model import ScriptedModel
from tests.support.agent.waiter import (
    WAITER,
    await_cooking,
    find_reported_calls,
    order_task,
    order_tasks,
)

from fleetwright_a2a.extensions import ASK, COST, KAGENT_HITL

ASKING = {"subAgents": [WAITER], "approvals": {"tools": ["house__charge_card"]}}


def prompt(task):
    return task["status"]["message"]["parts"][0]["text"]


def title(task):
    return task["status"]["message"]["parts"][1]["data"]["title"]


@pytest.mark.parametrize(
    ("said", "result", "ledger"),
    [
        pytest.param("yes", "charged 30", ["table for 4", "charged 30", "table for 6"], id="approved"),
        pytest.param("no", "house__charge_card was not approved", ["table for 4", "table for 6"], id="declined"),
    ],
)
async def test_sub_agent_question_reaches_the_caller(agent, states, mounted, house, said, result, ledger):
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_task("Book table for 4; charge card 30; book table for 6"))
        assert (states(asked), house.ledger) == ("input-required", ["table for 4"])
        assert prompt(asked).startswith("Sub-agent waiter: Approval is needed to run house__charge_card")
        assert title(asked) == "Run house__charge_card? (sub-agent waiter)"
        done = await guest.say(said, taskId=asked["id"])
        assert states(done) == "completed"
        assert result in read_answer(done)
        assert done["artifacts"][0]["metadata"][COST]["toolCalls"] == 4
        assert await guest.metric('sub_agent_tasks_total{outcome="ok",sub_agent="waiter"}') == 1
    assert house.ledger == ledger
    assert [line["tool"] for line in read_audit_lines(mounted)].count("task") == 1


@pytest.mark.parametrize("said", ["yes", "no"])
async def test_sub_agent_question_survives_a_kill(agent_process, states, house, said):
    async with agent_process(**ASKING) as guest:
        asked = await guest.say(order_task("Book table for 4; charge card 30"))
        assert states(asked) == "input-required"
        await guest.kill()
    async with agent_process(**ASKING) as guest:
        assert states(await guest.get(asked)) == "input-required"
        done = await guest.say(said, taskId=asked["id"])
        assert states(done) == "completed"
    assert house.ledger == ["table for 4", *(["charged 30"] if said == "yes" else [])]


async def test_sub_agent_killed_after_an_approval_repeats_no_call(agent_process, states, message, house, serve):
    """The kill hits while the sub-agent makes its next call. The approval does not hold for another call."""
    with serve_held_model(serve, tool_results=1) as (model, settings):
        settings |= {"subAgents": [WAITER], "approvals": {"tools": ["house__charge_card", "house__book_table"]}}
        async with agent_process(**settings) as guest:
            asked = await guest.say(order_task("Charge card 30; book table for 4"))
            await guest.stream_until_completed(message("yes", taskId=asked["id"]), "house__charge_card")
            await guest.kill_during(asked)
        model.released.set()
        async with agent_process(**settings) as guest:
            asked = await guest.rested(asked)
            assert (states(asked), "house__book_table" in prompt(asked)) == ("input-required", True)
            await guest.say("yes", taskId=asked["id"], now=True)
            assert states(await guest.rested(asked)) == "completed"
    assert house.ledger == ["charged 30", "table for 4"]


async def test_approved_call_of_a_sub_agent_is_unknown_after_a_kill(agent_process, states, house):
    asking = {"subAgents": [WAITER], "approvals": {"tools": ["house__cook_dish"]}}
    async with agent_process(**asking) as guest:
        asked = await guest.say(order_task("Cook dish for 2"))
        await guest.say("yes", taskId=asked["id"], now=True)
        await await_cooking(house)
        await guest.kill()
    house.kitchen.set()
    async with agent_process(**asking) as guest:
        ended = await guest.rested(asked)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
    assert house.ledger == ["cooked 2"]


async def test_sub_agents_of_a_batch_ask_one_after_the_other(agent, states, house):
    tasks = ("Charge card 30", "Book table for 2", "Charge card 40", "Charge card 50")
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_tasks(*tasks))
        identities = []
        for amount, said in ((30, "yes"), (40, "no"), (50, "yes")):
            assert (states(asked), str(amount) in prompt(asked)) == ("input-required", True)
            identities.append(asked["status"]["message"]["metadata"][ASK]["id"])
            asked = await guest.say(said, taskId=asked["id"])
        assert states(asked) == "completed"
        assert len({*identities}) == 3
        told = read_answer(asked)
        found = [told.index(each) for each in ("charged 30", "for 2 is booked", "was not approved", "charged 50")]
        assert found == sorted(found)
    assert sorted(house.ledger) == ["charged 30", "charged 50", "table for 2"]


async def test_batch_goes_on_after_a_kill_between_two_questions(agent_process, states, house):
    async with agent_process(**ASKING) as guest:
        asked = await guest.say(order_tasks("Charge card 30", "Book table for 2", "Charge card 40"))
        asked = await guest.say("yes", taskId=asked["id"])
        assert (states(asked), "40" in prompt(asked)) == ("input-required", True)
        await guest.kill()
    async with agent_process(**ASKING) as guest:
        done = await guest.say("yes", taskId=asked["id"])
        assert states(done) == "completed"
        assert await guest.metric('sub_agent_tasks_total{outcome="ok"') == 1, "the others had ended before"
    assert sorted(house.ledger) == ["charged 30", "charged 40", "table for 2"]


async def test_agent_and_sub_agent_may_ask_at_once(agent, states, serve, house):
    """Both calls are in one message of the model. Each reply decides about the call that the person has seen."""
    card = "house__charge_card"
    both = [("task", {"agent": "waiter", "task": "Charge 30"}), (card, {"amount": 40})]
    model = ScriptedModel(both, [(card, {"amount": 30})], "Charged.", "Done.")
    with serve(model.app) as port:
        sizes = {"contextWindow": 20_000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        endpoint = {"name": "scripted", "baseUrl": f"http://127.0.0.1:{port}/v1", **sizes}
        async with agent(**ASKING, model=endpoint) as guest:
            asked = await guest.say("Charge both")
            seen = []
            while states(asked) == "input-required":
                seen.append(("30" in prompt(asked), prompt(asked).startswith("Sub-agent waiter: ")))
                asked = await guest.say("yes" if "30" in prompt(asked) else "no", taskId=asked["id"])
            assert states(asked) == "completed"
    assert sorted(seen) == [(False, False), (True, True)]
    assert house.ledger == ["charged 30"]
    assert sum("was not approved" in each for each in model.results()) == 1


async def test_reply_to_an_earlier_question_answers_no_later_one(agent, house):
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_task("Charge card 30; charge card 40"))
        first = asked["status"]["message"]["metadata"][ASK]["id"]
        again = await guest.say("yes", taskId=asked["id"])
        assert again["status"]["message"]["metadata"][ASK]["id"] != first
        message = {"messageId": "late", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": asked["id"]}
        late = await guest.call("SendMessage", {"message": {**message, "metadata": {ASK: {"id": first}}}})
        assert "error" in late
    assert house.ledger == ["charged 30"]


async def test_question_of_a_sub_agent_follows_the_approval_of_its_task(agent, states, house):
    approvals = {"approvals": {"tools": ["task", "house__charge_card"]}}
    async with agent(**ASKING | approvals) as guest:
        asked = await guest.say(order_task("Charge card 30; charge card 40"))
        for wanted in ("run task", "Sub-agent waiter", "Sub-agent waiter"):
            assert (states(asked), wanted in prompt(asked)) == ("input-required", True)
            asked = await guest.say("yes", taskId=asked["id"])
        assert states(asked) == "completed"
    assert house.ledger == ["charged 30", "charged 40"]


async def test_question_of_a_sub_agent_waits_beside_other_messages(agent, states, house):
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_task("Book table for 4; charge card 30"))
        other = await guest.say(order_task("Book table for 5"), contextId=asked["contextId"])
        assert states(other) == "completed"
        assert states(await guest.say("yes", taskId=asked["id"])) == "completed"
    assert house.ledger == ["table for 4", "table for 5", "charged 30"]


async def test_question_of_a_sub_agent_counts_no_call_twice(agent, states, house):
    """The limits allow the two calls of the sub-agent and the call that started it, and no more."""
    limits = {"limits": [{"tool": "*", "max": 3, "windowSeconds": 3600}]}
    async with agent(**ASKING, enforcement=limits, limits={"maxToolCalls": 3}) as guest:
        asked = await guest.say(order_task("Book table for 4; charge card 30; book table for 6"))
        done = await guest.say("yes", taskId=asked["id"])
        assert states(done) == "completed"
    assert house.ledger == ["table for 4", "charged 30"]


async def test_approval_of_a_sub_agent_call_may_change_its_arguments(agent, states, house):
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_task("Charge card 30"))
        changed = {"approved": True, "arguments": {"amount": 12}}
        assert states(await guest.say(None, data=changed, taskId=asked["id"])) == "completed"
    assert house.ledger == ["charged 12"]


async def test_cancelled_question_of_a_sub_agent_leaves_nothing(agent, states, house):
    async with agent(**ASKING) as guest:
        asked = await guest.say(order_task("Charge card 30"))
        await guest.call("CancelTask", {"id": asked["id"]})
        assert states(await guest.get(asked)) == "canceled"
        assert states(await guest.say("Book table for 5", contextId=asked["contextId"])) == "completed"
    assert house.ledger == ["table for 5"]


async def test_question_of_a_sub_agent_names_its_reported_call(agent, message):
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message(order_task("Charge card 30"))}
    async with agent(**ASKING) as guest:
        async with guest.http() as http:
            answered = await http.post("/a2a", json=body, headers={"A2A-Extensions": KAGENT_HITL})
        asked = answered.json()["result"]["task"]
        (tool,) = asked["status"]["message"]["metadata"][KAGENT_HITL]["tools"]
        events = [each async for each in guest.events("SendStreamingMessage", message("yes", taskId=asked["id"]))]
    charged = [each["toolCallId"] for each in find_reported_calls(events) if each["name"] == "house__charge_card"]
    assert charged == [tool["call_id"]] * 2


async def test_calls_of_a_waiting_sub_agent_are_reported_once(agent, message):
    async with agent(**ASKING) as guest:
        sent = message(order_task("Book table for 4; charge card 30"))
        events = [each async for each in guest.events("SendStreamingMessage", sent)]
        task_id = next(each["task"]["id"] for each in events if "task" in each)
        events += [each async for each in guest.events("SendStreamingMessage", message("yes", taskId=task_id))]
    assert [(each["name"], each["phase"]) for each in find_reported_calls(events)] == [
        ("task", "started"),
        ("house__book_table", "started"),
        ("house__book_table", "completed"),
        ("house__charge_card", "started"),
        ("house__charge_card", "completed"),
        ("task", "completed"),
    ]
