"""A turn ends at its limit of tokens, and neither a pause, a kill nor a sub-agent hides what it has used."""

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.agent.scripted_model import ScriptedModel

from fleetwright_a2a.extensions import COST

FIRST_CALL = {"limits": {"maxTurnTokens": 1}}
"""A limit that allows exactly one model call."""
WAITER = {
    "name": "waiter",
    "description": "Serves guests.",
    "instructions": "You are the waiter of the house.",
    "tools": ["house__book_table"],
}


def ended(task, states):
    """Return the reason of the failed task, and the tokens of its cost."""
    assert states(task) == "failed"
    message = task["status"]["message"]
    carrier = task["artifacts"][0] if task.get("artifacts") else message
    usage = carrier["metadata"][COST]["usage"]
    used = usage["input_tokens"] + usage["output_tokens"]
    return message["metadata"]["reason"], message["metadata"].get("tokens", {}).get("used"), used


async def test_turn_ends_before_the_call_after_the_limit(agent, states, house):
    async with agent() as guest:
        free = await guest.say("Book table for 2 [[again:9!]]", metadata={"incognito": True})
    assert free["status"]["message"]["metadata"]["reason"] == "repeated_tool_call"
    house.ledger.clear()
    async with agent(**FIRST_CALL) as guest:
        task = await guest.say("Book table for 2 [[again:9!]]", metadata={"incognito": True})
        assert "its limit of 1 tokens" in task["status"]["message"]["parts"][0]["text"]
        reason, said, charged = ended(task, states)
        assert (reason, said) == ("token_limit", charged)
        # The limit is for one message: another message of the conversation has its own.
        assert states(await guest.say("Hello", contextId=task["contextId"])) == "completed"
    assert house.ledger == ["table for 2"]


@pytest.mark.parametrize("kills", [False, True], ids=["a pause", "a pause and a restart"])
async def test_pause_does_not_reset_the_tokens(agent, states, house, kills):
    settings = {"approvals": {"tools": ["house__charge_card"]}}
    limited = settings | FIRST_CALL
    async with agent(**(settings if kills else limited)) as guest:
        task = await guest.say("Charge the card 30")
        assert states(task) == "input-required"
        if not kills:
            task = await guest.say("yes", taskId=task["id"])
    if kills:
        async with agent(**limited) as guest:
            task = await guest.say("yes", taskId=task["id"])
    reason, said, charged = ended(task, states)
    assert (reason, said) == ("token_limit", charged)
    assert house.ledger == ["charged 30"]


@pytest.mark.starts_first
async def test_kill_does_not_reset_the_tokens(agent_process, states, message, house, serve):
    with serve_held_model(serve, tool_results=1) as (model, settings):
        async with agent_process(**settings) as guest:
            task = await guest.stream_until_completed(message("Book table for 4"), "house__book_table")
            await guest.kill_during(task)
        model.released.set()
        async with agent_process(**settings | FIRST_CALL) as guest:
            reason, said, charged = ended(await guest.rested(task), states)
    assert (reason, said) == ("token_limit", charged)
    assert house.ledger == ["table for 4"]


async def test_calls_without_reported_usage_are_estimated(agent, states, house, serve):
    scripted = ScriptedModel([("house__book_table", {"guests": 4})], "Done.", reports_usage=False)
    with serve(scripted.app) as port:
        sizes = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        model = {"name": "m", "baseUrl": f"http://127.0.0.1:{port}/v1", **sizes}
        async with agent(model=model, **FIRST_CALL) as guest:
            reason, said, charged = ended(await guest.say("Book a table for 4"), states)
    assert (reason, said) == ("token_limit", charged)
    assert house.ledger == ["table for 4"]


async def test_tokens_of_the_turn_count_for_its_sub_agents(agent, states, house):
    async with agent(subAgents=[WAITER], **FIRST_CALL) as guest:
        task = await guest.say('Give a task to the sub-agent waiter: "Book table for 4"')
        assert ended(task, states)[0] == "token_limit"
        assert await guest.metric('sub_agent_tasks_total{outcome="failed",sub_agent="waiter"}') == 1
    assert house.ledger == []


async def test_tokens_of_sub_agents_count_for_the_turn(agent, states, house):
    """The limit is above the first call of the agent, and below that call and both calls of the sub-agent."""
    async with agent(subAgents=[WAITER]) as guest:
        free = await guest.say('Give a task to the sub-agent waiter: "Book table for 4"', metadata={"incognito": True})
        alone = await guest.say("Hello", metadata={"incognito": True})
    assert states(free) == "completed"
    usage = [each["artifacts"][0]["metadata"][COST]["usage"] for each in (free, alone)]
    whole, first = (each["input_tokens"] + each["output_tokens"] for each in usage)
    house.ledger.clear()
    # The turn makes two calls of about the size of the first. The sub-agent makes the others.
    limit = first + (whole - 2 * first) // 2
    async with agent(subAgents=[WAITER], limits={"maxTurnTokens": limit}) as guest:
        task = await guest.say('Give a task to the sub-agent waiter: "Book table for 4"', metadata={"incognito": True})
        assert ended(task, states)[0] == "token_limit"
