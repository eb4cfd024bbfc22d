"""An agent with a budget, over A2A: the errors when it is exhausted, and usage that survives a kill."""

from typing import Any

import httpx
from tests.support.agent.reports import read_cost
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until

TINY = {"period": "Month", "tokens": 4000}


async def used_up(guest: Any) -> dict[str, Any]:
    """Send messages until the budget is exhausted, and return the rejected task."""
    for _ in range(20):
        task: dict[str, Any] = await guest.say("Tell me about " + "the sea and " * 100)
        if task["status"]["state"] != "TASK_STATE_COMPLETED":
            return task
    raise AssertionError("the budget was never used up")


async def test_budget_exhaustion_is_typed_and_usage_survives_a_kill(agent_process, house):
    async with agent_process(budgets=[TINY]) as guest:
        refused = await used_up(guest)
        assert refused["status"]["state"] == "TASK_STATE_REJECTED"
        told = refused["status"]["message"]
        assert "The budget of this agent, 4000 tokens a month, is used up" in told["parts"][0]["text"]
        assert told["metadata"]["reason"] == "budget_exceeded"
        assert (told["metadata"]["budget"]["period"], told["metadata"]["budget"]["tokens"]) == ("Month", 4000)
        assert told["metadata"]["budget"]["resetsAt"].endswith("-01T00:00:00Z")
        await guest.kill()
    async with agent_process(budgets=[{**TINY, "tokens": 3200}]) as guest:
        again = await guest.say("Book table for 4")
        assert again["status"]["state"] == "TASK_STATE_REJECTED"
        assert await guest.metric('budget_rejections_total{period="Month"}') == 1
        async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
            (budget,) = (await http.get("/status")).json()["budgets"]
        assert (budget["exceeded"], budget["exhausted"], budget["tokens"]) == (True, True, 3200)
        assert 2200 < budget["spentTokens"] <= 3200, "the rest is smaller than the output limit"
    assert house.ledger == []


async def test_budget_paused_task_resumes_once_budget_is_available(agent, house):
    async with agent(budgets=[{**TINY, "onExceeded": "Pause"}]) as guest:
        paused = await used_up(guest)
        assert paused["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        text, data = paused["status"]["message"]["parts"]
        assert "Say anything after that" in text["text"]
        assert data["data"]["budget"]["period"] == "Month"
        still = await guest.say("And now?", taskId=paused["id"])
        assert still["status"]["state"] == "TASK_STATE_INPUT_REQUIRED", "the budget is still exhausted"
        by_agent = await guest.by("agent:team/peer").say("Tell me about " + "the sea and " * 300)
        assert by_agent["status"]["state"] == "TASK_STATE_REJECTED", "a calling agent gets no question"
    async with agent(budgets=[{"period": "Month", "tokens": 400_000}]) as guest:
        done = await guest.say("And now?", taskId=paused["id"])
        assert done["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_budget_smaller_than_one_call_rejects_the_task(agent):
    async with agent(budgets=[{"period": "Hour", "tokens": 50, "onExceeded": "Pause"}]) as guest:
        refused = await guest.say("Hello")
        assert refused["status"]["state"] == "TASK_STATE_REJECTED"
        told = refused["status"]["message"]["parts"][0]["text"]
        assert "more than the whole budget of this agent, 50 tokens an hour" in told


async def test_budget_exhausted_mid_task_keeps_effects_and_cost(agent, house):
    async with agent(budgets=[{"period": "Month", "tokens": 2600}]) as guest:
        task = await guest.say("Book table for 2, then book table for 3, then book table for 4, then charge card 5")
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert task["status"]["message"]["metadata"]["reason"] == "budget_exceeded"
        assert read_cost(task)["success"] is False
        assert read_cost(task)["usage"]["input_tokens"] > 0
    assert house.ledger


async def test_budget_downgrade_switches_to_the_cheaper_model(agent):
    downgrade = {"at": "0.1", "model": {"name": "offline-small", "contextWindow": 8000}}
    async with agent(budgets=[{"period": "Day", "tokens": 6000, "downgrade": downgrade}]) as guest:
        await guest.say("Tell me about " + "the sea and " * 150)
        await guest.say("Hello")
        assert await guest.metric('llm_calls_total{model="offline-small",outcome="ok"}') >= 1


async def test_task_costs_add_up_to_the_metrics(agent):
    async with agent() as guest:
        tasks = [await guest.say(text) for text in ("Book table for 2", "Hello", "Charge card 5", "Tell me a story")]
        told = [read_cost(task) for task in tasks]
        spent = await guest.metric("llm_cost_usd_total")
        assert abs(sum(each["costUsd"] for each in told) - spent) < 1e-6 * len(told)
        tokens = sum(sum(each["usage"][key] for key in ("input_tokens", "output_tokens")) for each in told)
        assert tokens == await guest.metric("llm_tokens_total")
        assert await guest.metric('caller_cost_usd_total{caller="client:default"}') == spent


async def test_budget_refusal_fails_a_task_that_has_effects(agent, house):
    async with agent() as guest:
        asked = await guest.say("Book table for 2, then ask the human about dessert")
        assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    async with agent(budgets=[{"period": "Month", "tokens": 1}]) as guest:
        ended = await guest.say("Cake, please", taskId=asked["id"])
        assert ended["status"]["state"] == "TASK_STATE_FAILED", "REJECTED would make the caller retry and book twice"
    assert house.ledger == ["table for 2"]


async def test_cancelled_model_call_is_charged(agent, house):
    async with agent() as guest:
        task = await guest.say("Tell me a story [[long:400]] [[pause:0.02]]", now=True)

        async def has_text() -> bool:
            return bool((await guest.get(task)).get("artifacts"))

        await await_until(has_text, "the task has the first words of the story")
        await guest.call("CancelTask", {"id": task["id"]})
        ended = await guest.rested(task)
        assert ended["status"]["state"] == "TASK_STATE_CANCELED"
        usage = read_cost(ended)["usage"]
        assert usage["input_tokens"] > 0
        assert usage["output_tokens"] > 0
        assert read_cost(ended)["success"] is False
        assert await guest.metric("llm_tokens_total") == usage["input_tokens"] + usage["output_tokens"]
        assert await guest.metric("llm_estimated_calls_total") == 1
