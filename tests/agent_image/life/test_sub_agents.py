"""An agent with sub-agents, over A2A: their permissions, their cost, and their cleanup after an early end."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.agent.reports import read_answer, read_audit_lines
from tests.support.agent.waiter import (
    WAITER,
    await_cooking,
    find_reported_calls,
    order_task,
    order_tasks,
)
from tests.support.waiting import within

from fleetwright_a2a.extensions import COST
from fleetwright_agent.storage.sqlite.conversations import schema


def places(mounted):
    """Return the thread and the namespace of every checkpoint."""
    with closing(sqlite3.connect(mounted.layout.memory / schema.FILE)) as connection:
        return connection.execute("SELECT thread, ns FROM checkpoints").fetchall()


async def test_sub_agent_uses_its_tools_and_leaves_only_its_answer(agent, mounted, house):
    async with agent(subAgents=[WAITER]) as guest:
        task = await guest.say(order_task("Book table for 4"))
        assert "A table for 4 is booked." in read_answer(task)
        assert await guest.metric('sub_agent_tasks_total{outcome="ok",sub_agent="waiter"}') == 1
    assert house.ledger == ["table for 4"]
    assert [thread.count("\n") for thread, _ in places(mounted)] == [1], "only the conversation remains"


async def test_sub_agent_has_own_instructions_and_no_conversation(agent):
    async with agent(subAgents=[WAITER]) as guest:
        first = await guest.say("My dog is called Rex.")
        told = read_answer(await guest.say(order_task("What is my dog called?"), contextId=first["contextId"]))
    assert "My instructions begin: You are the waiter of the house." in told
    assert "Rex" not in told


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        pytest.param("Charge card 30", {"tools": ["house__book_table"]}, id="a tool that is not in its list"),
        pytest.param("Charge card 30", {"tools": []}, id="any tool, where its list is empty"),
        pytest.param("Give a task to the sub-agent waiter about tables", {}, id="the tool that gives work to others"),
        pytest.param("Ask the human about dessert", {}, id="the tool that asks a person"),
    ],
)
async def test_sub_agent_lacks_tools_outside_its_permissions(agent, states, house, task, changes):
    async with agent(subAgents=[WAITER | changes]) as guest:
        done = await guest.say(order_task(task))
        assert "I read your message:" in read_answer(done), "it answered with text, because it has no matching tool"
        assert states(done) == "completed"
        assert await guest.metric("sub_agent_tasks_total") == 1
    assert house.ledger == []


async def test_task_tool_is_absent_without_sub_agents(agent):
    async with agent() as guest:
        assert "I read your message:" in read_answer(await guest.say(order_task("Hello")))
        assert await guest.metric("tool_calls_total") == 0


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        pytest.param({"deny": ["house__charge_card"]}, "I read your message:", id="a denied tool"),
        pytest.param(
            {"arguments": [{"tool": "house__charge_card", "schema": {"properties": {"amount": {"maximum": 50}}}}]},
            "greater than the maximum",
            id="a rule for arguments",
        ),
        pytest.param(
            {"limits": [{"tool": "*", "max": 1, "windowSeconds": 3600}]}, "the limit of tools is reached", id="a limit"
        ),
    ],
)
async def test_sub_agent_is_bound_by_the_policy_of_its_agent(agent, house, policy, says):
    async with agent(subAgents=[WAITER], enforcement=policy) as guest:
        assert says in read_answer(await guest.say(order_task("Charge card 70")))
    assert house.ledger == []


async def test_task_tool_can_require_approval(agent, states, house):
    async with agent(subAgents=[WAITER], approvals={"tools": ["task"]}) as guest:
        asked = await guest.say(order_task("Book table for 4"))
        assert (states(asked), house.ledger) == ("input-required", [])
        done = await guest.say("yes", taskId=asked["id"])
        assert states(done) == "completed"
    assert house.ledger == ["table for 4"]


async def test_sub_agent_calls_count_against_the_tool_call_limit(agent, house):
    async with agent(subAgents=[WAITER], limits={"maxToolCalls": 2}) as guest:
        told = read_answer(await guest.say(order_task("Book table for 2; book table for 3")))
    assert "the limit of 2 tool calls is reached" in told
    assert house.ledger == ["table for 2"]


async def test_audit_trail_names_the_sub_agent_of_each_call(agent, mounted):
    async with agent(subAgents=[WAITER]) as guest:
        task = await guest.say(order_task("Book table for 4"))
    inner, outer = read_audit_lines(mounted)
    assert (inner["tool"], inner["sub_agent"], inner["task_id"]) == ("house__book_table", "waiter", task["id"])
    assert (outer["tool"], outer["task_id"]) == ("task", task["id"])
    assert "sub_agent" not in outer


async def test_sub_agent_calls_are_reported_under_their_outer_call(agent, message):
    async with agent(subAgents=[WAITER]) as guest:
        calls = find_reported_calls(
            [e async for e in guest.events("SendStreamingMessage", message(order_task("Book table for 4")))]
        )
    outer = calls[0]["toolCallId"]
    assert [(each["name"], each["phase"]) for each in calls] == [
        ("task", "started"),
        ("house__book_table", "started"),
        ("house__book_table", "completed"),
        ("task", "completed"),
    ]
    assert [each["toolCallId"].startswith(f"{outer}/") for each in calls] == [False, True, True, False]
    assert [each.get("parentToolCallId") for each in calls] == [None, outer, outer, None]


async def test_sub_agent_text_is_not_part_of_the_answer(agent, message):
    async with agent(subAgents=[WAITER]) as guest:
        events = [e async for e in guest.events("SendStreamingMessage", message(order_task("Hello [[think:3]]")))]
    pieces = [
        part["text"] for e in events if "artifactUpdate" in e for part in e["artifactUpdate"]["artifact"]["parts"]
    ]
    assert pieces[0].startswith("Here"), "the stream has the agent's text, not the sub-agent's"


async def test_sub_agent_cost_is_in_task_cost_metrics_and_usage_store(agent, mounted):
    small = {"name": "small", "contextWindow": 8000, "price": {"inputPerMillion": "7", "outputPerMillion": "9"}}
    async with agent(subAgents=[WAITER | {"model": small}]) as guest:
        task = await guest.say(order_task("Book table for 4"))
        bill = task["artifacts"][0]["metadata"][COST]
        counted = await guest.metric("llm_cost_usd_total")
        tokens = await guest.metric("llm_tokens_total")
        calls = [
            await guest.metric(f'llm_calls_total{{model="{model}",outcome="ok"}}') for model in ("offline", "small")
        ]
    with closing(sqlite3.connect(mounted.layout.memory / schema.FILE)) as connection:
        picos, used = connection.execute("SELECT sum(picos), sum(input + output) FROM ledger").fetchone()
    assert calls == [2, 2]
    assert bill["costUsd"] == pytest.approx(counted, abs=1e-6) == pytest.approx(picos / 1e12, abs=1e-6)
    assert bill["usage"]["input_tokens"] + bill["usage"]["output_tokens"] == tokens == used


@pytest.mark.parametrize(
    ("task", "changes", "says"),
    [
        pytest.param("Hello [[fail:401]]", {}, "waiter came to no end", id="its model refuses"),
        pytest.param("Hello [[fail:empty]]", {}, "waiter gave an empty answer", id="its model says nothing"),
        pytest.param("Book table for 4 [[again:9!]]", {}, "repeated one tool call 6 times", id="it goes in circles"),
        pytest.param(
            "Book table for 2; book table for 3",
            {"maxModelCalls": 1},
            "reached its limit of 1 model calls",
            id="it comes to no end",
        ),
        pytest.param(
            "Cook dish for 2", {"timeoutSeconds": 1}, "waiter was not done within 1 s", id="it takes too long"
        ),
    ],
)
async def test_sub_agent_failure_is_a_tool_result(agent, states, task, changes, says):
    async with agent(subAgents=[WAITER | changes]) as guest:
        done = await guest.say(order_task(task))
        assert states(done) == "completed"
        assert says in read_answer(done)
        assert await guest.metric('tool_calls_total{outcome="error",tool="task"}') == 1
        word = "timeout" if "timeoutSeconds" in changes else "failed"
        assert await guest.metric(f'sub_agent_tasks_total{{outcome="{word}",sub_agent="waiter"}}') == 1


async def test_sub_agent_model_falls_back_to_those_of_the_agent(agent, states, model_port, house):
    sizes = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
    endpoint = {**sizes, "baseUrl": f"http://127.0.0.1:{model_port}/v1"}
    model = {**endpoint, "name": "offline", "fallbacks": [{**endpoint, "name": "spare"}]}
    small = {"name": "small", "contextWindow": 8000}
    async with agent(model=model, subAgents=[WAITER | {"model": small}]) as guest:
        done = await guest.say(order_task("Book table for 4 [[fail:401@small]]"))
        assert states(done) == "completed"
        assert "A table for 4 is booked." in read_answer(done)
        assert await guest.metric('model_fallbacks_total{from="small",reason="model_unauthorized",to="spare"}') == 1
        assert await guest.metric('llm_tokens_total{direction="output",model="spare"}') > 0
    assert house.ledger == ["table for 4"]


async def test_sub_agent_answer_is_truncated_at_6000_characters(agent, message):
    async with agent(subAgents=[WAITER]) as guest:
        calls = find_reported_calls(
            [e async for e in guest.events("SendStreamingMessage", message(order_task("Hi [[long:2000]]")))]
        )
    assert 6000 < calls[-1]["outputChars"] < 6060


async def test_sub_agent_batch_keeps_order_and_isolates_failures(agent, house):
    async with agent(subAgents=[WAITER]) as guest:
        told = read_answer(await guest.say(order_tasks("Book table for 2", "Hello [[fail:401]]", "Book table for 3")))
    places = [
        told.index(each) for each in ("# Task 1, waiter", "A table for 2", "# Task 2", "Error:", "# Task 3", "for 3")
    ]
    assert places == sorted(places)
    assert sorted(house.ledger) == ["table for 2", "table for 3"]


async def test_sub_agent_batch_runs_four_at_a_time(agent, states, house):
    async with agent(subAgents=[WAITER]) as guest:
        task = await guest.say(order_tasks(*(f"Cook dish for {n}" for n in range(1, 7))), now=True)
        await await_cooking(house, 4)
        await asyncio.sleep(0.5)
        assert len(house.ledger) == 4
        house.kitchen.set()
        assert states(await guest.rested(task)) == "completed"
    assert sorted(house.ledger) == [f"cooked {n}" for n in range(1, 7)]


async def test_sub_agents_end_when_their_task_is_cancelled(agent, states, mounted, house):
    async with agent(subAgents=[WAITER]) as guest:
        task = await guest.say(order_task("Cook dish for 2; book table for 9"), now=True)
        await await_cooking(house)
        await guest.call("CancelTask", {"id": task["id"]})
        house.kitchen.set()
        assert states(await guest.rested(task)) == "canceled"
        after = await guest.say("Book table for 5", contextId=task["contextId"])
        assert states(after) == "completed"
    assert house.ledger == ["cooked 2", "table for 5"]
    assert {ns for _, ns in places(mounted)} == {""}, "the sub-agent left no checkpoints"
    assert [(line["tool"], line["outcome"]) for line in read_audit_lines(mounted)][:2] == [
        ("house__cook_dish", "cancelled"),
        ("task", "cancelled"),
    ]


async def test_sub_agent_over_budget_fails_and_pauses_the_task(agent, states):
    budget = {"period": "Month", "tokens": 6000, "onExceeded": "Pause"}
    async with agent(subAgents=[WAITER | {"instructions": "Serve. " * 1200}], budgets=[budget]) as guest:
        paused = await guest.say(order_task("Hello " + "there " * 800))
        assert states(paused) == "input-required"
        assert paused["status"]["message"]["parts"][1]["data"]["budget"]["tokens"] == 6000
        assert await guest.metric('sub_agent_tasks_total{outcome="failed",sub_agent="waiter"}') == 1


async def test_sub_agent_killed_between_calls_repeats_none(agent_process, states, message, house, serve):
    house.kitchen.set()
    with serve_held_model(serve, tool_results=2) as (model, settings):
        settings |= {"subAgents": [WAITER]}
        async with agent_process(**settings) as guest:
            ordered = message(order_task("Book table for 4; cook dish for 2"))
            task = await guest.stream_until_completed(ordered, "house__cook_dish")
            await guest.kill_during(task)
        model.released.set()
        async with agent_process(**settings) as guest:
            done = await guest.rested(task)
            assert states(done) == "completed"
            assert "A table for 4 is booked. 2 portions are ready." in read_answer(done)
    assert house.ledger == ["table for 4", "cooked 2"]


async def test_sub_agent_interrupted_call_is_not_repeated(agent_process, states, house):
    async with agent_process(subAgents=[WAITER]) as guest:
        task = await guest.say(order_task("Cook dish for 2"), now=True)
        await await_cooking(house)
        await guest.kill()
    house.kitchen.set()
    async with agent_process(subAgents=[WAITER]) as guest:
        ended = await guest.rested(task)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
        assert "house__cook_dish ran" in ended["status"]["message"]["parts"][0]["text"]
        assert states(await guest.say("Book table for 5", contextId=task["contextId"])) == "completed"
    assert house.ledger == ["cooked 2", "table for 5"]


async def test_sub_agent_batch_skips_finished_tasks_after_a_kill(agent_process, states, house):
    async with agent_process(subAgents=[WAITER]) as guest:
        task = await guest.say(order_tasks("Book table for 2", "Hello [[pause:1.0]]", "Book table for 3"), now=True)
        await await_cooking(house, 2)
        async with within("two tasks of sub-agents are finished"):
            while await guest.metric('sub_agent_tasks_total{outcome="ok"') < 2:  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.02)
        await guest.kill()
    async with agent_process(subAgents=[WAITER]) as guest:
        done = await guest.rested(task)
        assert states(done) == "completed"
        told = read_answer(done)
        assert ("A table for 2" in told, "You are the waiter" in told, "A table for 3" in told) == (True, True, True)
        assert await guest.metric('sub_agent_tasks_total{outcome="ok"') == 3, "only the unfinished sub-agent runs again"
    assert sorted(house.ledger) == ["table for 2", "table for 3"]
