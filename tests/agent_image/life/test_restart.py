"""A process that is killed in the middle of a turn: what goes on, what ends, and what never happens twice."""

import asyncio


async def test_a_turn_that_was_killed_before_any_effect_goes_on(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4", now=True)
        await guest.kill()
    async with agent_process() as guest:
        done = await guest.rested(task)
        assert states(done) == "completed"
    assert house.ledger == ["table for 4"]


async def test_a_tool_that_has_answered_is_not_called_again_and_the_answer_is_told_once(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4 [[pause:0.5]]", now=True)
        async with asyncio.timeout(30):
            while not (await guest.get(task)).get("artifacts"):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.05)
        await guest.kill()
    async with agent_process() as guest:
        follow = guest.events("SubscribeToTask", {"id": task["id"]})
        seen = [event async for event in follow]
        done = await guest.get(task)
    assert house.ledger == ["table for 4"]
    assert states(done) == "completed"
    (artifact,) = done["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == ("Here is what I found. A table for 4 is booked.")
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_tool_that_was_running_is_not_called_again_and_the_task_says_why_it_ended(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Cook a dish of 3 portions", now=True)
        await until(lambda: ledger(house), 1)
        await guest.kill()
    house.kitchen.set()
    async with agent_process() as guest:
        ended = await guest.rested(task)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
        assert "house__cook_dish ran" in ended["status"]["message"]["parts"][0]["text"]
        after = await guest.say("Book table for 2", contextId=task["contextId"])
        assert states(after) == "completed"
    assert house.ledger == ["cooked 3", "table for 2"]


async def test_of_two_calls_the_one_that_ended_keeps_its_result_and_neither_is_made_again(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4; cook a dish of 3 portions [[together]]", now=True)
        await until(lambda: ledger(house), 2)
        await guest.kill()
    async with agent_process() as guest:
        assert states(await guest.rested(task)) == "failed"
    assert sorted(house.ledger) == ["cooked 3", "table for 4"]


async def test_a_reply_that_was_being_worked_on_is_not_lost(agent_process, states, house):
    async with agent_process(approvals={"tools": ["house__charge_card"]}) as guest:
        task = await guest.say("Charge the card 30 [[pause:0.5]]")
        await guest.say("yes", taskId=task["id"], now=True)
        await until(lambda: ledger(house), 1)
        await asyncio.sleep(0.7)
        await guest.kill()
    async with agent_process(approvals={"tools": ["house__charge_card"]}) as guest:
        done = await guest.rested(task)
        assert states(done) == "completed"
        assert "The card is charged 30." in done["artifacts"][0]["parts"][0]["text"]
    assert house.ledger == ["charged 30"]


async def test_messages_that_waited_for_their_turn_are_answered_in_their_order(agent_process, states):
    async with agent_process() as guest:
        first = await guest.say("Hello there, my friend. [[pause:0.5]]", now=True, contextId="shared")
        second = await guest.say("My dog is called Rex.", now=True, contextId="shared")
        third = await guest.say("What is my dog called?", now=True, contextId="shared")
        await asyncio.sleep(0.3)
        await guest.kill()
    async with agent_process() as guest:
        ends = [await guest.rested(task) for task in (first, second, third)]
    assert [states(task) for task in ends] == ["completed"] * 3
    assert "Rex" in ends[2]["artifacts"][0]["parts"][0]["text"]


async def test_a_reply_that_waited_behind_a_running_turn_of_its_conversation_spoils_neither(agent_process, states):
    async with agent_process() as guest:
        first = await guest.say("Ask the human about dessert", contextId="shared")
        second = await guest.say("My dog is called Rex. [[pause:0.5]]", now=True, contextId="shared")
        async with asyncio.timeout(30):
            while not (await guest.get(second)).get("artifacts"):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.05)
        await guest.say("Cake", taskId=first["id"], now=True)
        await guest.kill()
    async with agent_process() as guest:
        ends = [await guest.rested(task) for task in (first, second)]
        assert [states(task) for task in ends] == ["completed"] * 2
        assert "Cake" in ends[0]["artifacts"][0]["parts"][0]["text"]
        assert "I read your message: My dog is called Rex." in ends[1]["artifacts"][0]["parts"][0]["text"]
        known = await guest.say("What is my dog called?", contextId="shared")
        assert "Rex" in known["artifacts"][0]["parts"][0]["text"]


async def ledger(house):
    return len(house.ledger)


async def until(look, wanted):
    async with asyncio.timeout(30):
        while await look() < wanted:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)
