"""Model calls that the end of a process interrupts: the next process charges and reports estimates."""

import asyncio
import logging
from typing import Any

import httpx
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until, within

from fleetwright_a2a.extensions import COST

ALONE = {"memory": {"sessions": {"enabled": False}}}
TOKENS = ("input_tokens", "output_tokens")
SLOW = "Tell me. [[long:20]] [[pause:0.4]]"


def cost(task: dict[str, Any]) -> dict[str, Any]:
    (found,) = [each["metadata"][COST] for each in task["artifacts"] if COST in each.get("metadata", {})]
    payload: dict[str, Any] = found
    return payload


async def spoken(guest: Any, task: dict[str, Any]) -> None:
    """Return once the model has begun to answer."""
    async with within("the task shows an artifact"):
        while not (await guest.get(task)).get("artifacts"):  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)


async def status(guest: Any) -> dict[str, Any]:
    async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
        found: dict[str, Any] = (await http.get("/status")).json()
        return found


async def test_interrupted_call_is_charged_by_estimate_after_a_kill(agent_process, states):
    async with agent_process(**ALONE) as guest:
        whole = cost(await guest.say("Tell me. [[long:20]] [[pause:0.0]]"))
        task = await guest.say(SLOW, now=True)
        await spoken(guest, task)
        await guest.kill()
    async with agent_process(**ALONE) as guest:
        done = await guest.rested(task)
        charged = await guest.metric("llm_tokens_total")
        assert await guest.metric("llm_estimated_calls_total") == 1
    assert states(done) == "completed"
    bill = cost(done)
    assert (whole["modelCalls"], "estimated" in whole) == (1, False)
    assert (bill["modelCalls"], bill["estimated"]) == (2, True)
    assert bill["usage"]["input_tokens"] >= 1.5 * whole["usage"]["input_tokens"]
    assert bill["costUsd"] > whole["costUsd"]
    assert charged == sum(each["usage"].get(kind, 0) for each in (whole, bill) for kind in TOKENS)


async def test_completed_call_is_charged_once_after_a_kill(agent_process):
    async with agent_process(**ALONE) as guest:
        await guest.say("Hello")
        charged = await guest.metric("llm_tokens_total")
        await guest.kill()
    async with agent_process(**ALONE) as guest:
        assert charged > 0
        assert await guest.metric("llm_tokens_total") == charged
        assert await guest.metric("llm_estimated_calls_total") == 0


async def test_readiness_waits_until_interrupted_tasks_are_settled(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Cook a dish of 3 portions", now=True)
        await await_until(lambda: house.ledger, "the tool has its effect")
        await guest.kill()
    async with agent_process() as guest:
        assert states(await guest.get(task)) == "failed"


async def test_task_log_counts_all_model_calls_after_a_restart(agent, message, caplog):
    gated = {"approvals": {"tools": ["house__charge_card"]}}
    async with agent(**gated) as guest:
        waits = await guest.say("Charge card 5")
        assert waits["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    with caplog.at_level(logging.INFO, logger="fleetwright_agent"):
        async with agent(**gated) as guest:
            await guest.say("yes", taskId=waits["id"], contextId=waits["contextId"])
    rests = [record for record in caplog.records if record.getMessage() == "task rests"][-1]
    assert rests.__dict__["modelCalls"] == 2


async def test_cost_counts_tools_and_models_from_before_a_kill(agent_process, states):
    async with agent_process(**ALONE) as guest:
        task = await guest.say("Charge card 5, then tell me. [[long:40]] [[pause:0.1]]", now=True)
        await spoken(guest, task)
        await guest.kill()
    async with agent_process(**ALONE) as guest:
        done = await guest.rested(task)
    assert states(done) == "completed"
    bill = cost(done)
    assert (bill["toolCalls"], bill["models"]) == (1, ["offline"])


async def test_budget_status_is_exceeded_before_a_call_is_refused(agent):
    said: list[bool] = []
    async with agent(**ALONE, budgets=[{"period": "Month", "tokens": 4000}]) as guest:
        for _ in range(20):
            task = await guest.say("Tell me about the sea")
            if task["status"]["state"] != "TASK_STATE_COMPLETED":
                break
            (budget,) = (await status(guest))["budgets"]
            said.append(budget["exceeded"])
    assert said[0] is False
    assert said[-1] is True


async def test_budget_status_is_still_exceeded_after_a_kill(agent_process):
    budgets = [{"period": "Month", "tokens": 4000}]
    async with agent_process(**ALONE, budgets=budgets) as guest:
        for _ in range(20):
            task = await guest.say("Tell me about the sea")
            if task["status"]["state"] != "TASK_STATE_COMPLETED":
                break
        (before,) = (await status(guest))["budgets"]
        await guest.kill()
    async with agent_process(**ALONE, budgets=budgets) as guest, within("the status lists the budgets"):
        while not (found := (await status(guest))["budgets"]):  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)
    assert before["spentTokens"] < before["tokens"]
    assert before["exceeded"]
    assert found == [before]
