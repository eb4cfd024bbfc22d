"""Tasks that an agent gives to another agent without waiting: the result comes with a later message, exactly once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.agent.background_tasks import BEGUN, LATER, LostAnswer, await_booking
from tests.support.agent.reports import read_answer
from tests.support.machine import ceiling
from tests.support.waiting import await_until, within

from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest, TurnRequest
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteDelegatedTasks


class AskingCook:
    """A turn that asks a question."""

    async def run(self, request: TurnRequest, _: Any) -> AsyncIterator[InterruptRequest]:
        question = "How many eggs?"
        yield InterruptRequest(InterruptKind.QUESTION, question, {"question": question}, identity="q", tool="ask_human")

    async def aclose(self) -> None:
        """Do nothing, because the turn has no resources to close."""


async def test_background_result_comes_with_the_next_message_once(agent, peer, team, model_server, house, states):
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say(LATER)
                assert states(begun) == "completed"
                assert "cook works on task" in read_answer(begun)
                await await_booking(house, cook, states)
                other = await guest.say("My dog is called Rex.")
                assert BEGUN not in str(model.asked), "another conversation gets no result"
                stranger = await guest.by("client:other").say("Hello there", contextId=begun["contextId"])
                assert BEGUN not in str(model.asked), "another caller gets no result"
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert (BEGUN in model.asked[-1], "A table for 4 is booked." in model.asked[-1]) == (True, True)
                again = await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert {states(each) for each in (other, stranger, told, again)} == {"completed"}
    assert model.results() == 1, "the result is in the conversation once"
    assert house.ledger == ["table for 4"]


@asynccontextmanager
async def stored(mounted: Any) -> AsyncIterator[SqliteDelegatedTasks]:
    database = Database(mounted.layout.memory / schema.FILE, schema.SCHEMA)
    try:
        yield SqliteDelegatedTasks(database)
    finally:
        await database.aclose()


async def test_background_result_survives_a_kill(agent_process, peer, team, model_server, house, states, mounted):
    """A process that is killed before it removes the task leaves a result that is in the conversation already."""
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER)
                assert states(begun) == "completed"
                await guest.kill()
            await await_booking(house, cook, states)
            async with stored(mounted) as tasks:
                (task,) = await tasks.of("client:default", begun["contextId"])
            async with agent_process(**settings) as guest:
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert "A table for 4 is booked." in model.asked[-1]
                await guest.kill()
            async with stored(mounted) as tasks:
                assert await tasks.of("client:default", begun["contextId"]) == []
                await tasks.put(task)
            async with agent_process(**settings) as guest:
                await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert states(told) == "completed"
    assert model.results() == 1
    async with stored(mounted) as tasks:
        assert await tasks.of("client:default", begun["contextId"]) == []


async def test_background_task_begins_once_despite_a_kill(agent_process, peer, team, model_server, house, states):
    """The process is killed after the cook has begun the task, and before the caller knows it."""
    model, _ = model_server
    lost = LostAnswer()
    async with peer() as cook:
        with team(cook, lost) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER, now=True)
                assert await asyncio.to_thread(lost.given.wait, ceiling())
                await guest.kill()
            await await_booking(house, cook, states)
            async with agent_process(**settings) as guest:
                ended = await guest.rested(begun)
                assert states(ended) == "completed"
                assert "cook works on task" in read_answer(ended)
                await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                await guest.say("What is my dog called?", contextId=begun["contextId"])
        (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
    assert task["id"] in read_answer(ended)
    assert house.ledger == ["table for 4"], "the cook has worked once"
    assert model.results() == 1, "the result is in the conversation once"


async def test_unfinished_background_task_delays_no_message(agent, peer, team, model_server, house, states):
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say('Ask the agent "cook" "Cook a dish of 3 portions"')
                early = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert states(early) == "completed"
                assert BEGUN not in model.asked[-1]
                house.kitchen.set()
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                await cook.rested(task)
                await guest.say("What is my dog called?", contextId=begun["contextId"])
    assert "3 portions are ready." in model.asked[-1]
    assert model.results() == 1


async def test_failed_turn_keeps_the_task_that_asks(agent, peer, team, model_server, states):
    """The end of the agent waits for its cancellations, so the state of the task is final after it."""
    model, _ = model_server
    async with peer(turn=AskingCook()) as cook:
        with team(cook) as settings:
            async with agent(**settings) as guest:
                begun = await guest.say(LATER)
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                assert states(await cook.rested(task)) == "input-required"
                failed = await guest.say("Hello there [[fail:401]]", contextId=begun["contextId"])
                assert states(failed) == "failed"
            assert states(await cook.get(task)) == "input-required"
            async with agent(**settings) as guest:
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"])
                assert states(told) == "completed"
            assert (model.results(), "How many eggs?" in model.asked[-1]) == (1, True)
        assert states(await cook.get(task)) == "canceled", "the model has seen the question and not answered"


async def test_resumed_turn_ends_the_task_that_asks(agent_process, peer, team, model_server, states, mounted):
    """The process is killed after the question has entered the conversation, and before it has recorded that."""
    model, _ = model_server
    async with peer(turn=AskingCook()) as cook:
        with team(cook) as settings:
            async with agent_process(**settings) as guest:
                begun = await guest.say(LATER)
                (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
                assert states(await cook.rested(task)) == "input-required"
                model.released.clear()
                told = await guest.say("My dog is called Rex.", contextId=begun["contextId"], now=True)
                await await_until(lambda: BEGUN in model.asked[-1], "the model gets the result")
                await guest.kill()
            async with stored(mounted) as tasks:
                assert len(await tasks.of("client:default", begun["contextId"])) == 1
            model.released.set()
            async with agent_process(**settings) as guest:
                assert states(await guest.rested(told)) == "completed"
                async with within("the cook's task is canceled"):
                    while states(await cook.get(task)) != "canceled":  # noqa: ASYNC110 - it looks from outside
                        await asyncio.sleep(0.02)
    async with stored(mounted) as tasks:
        assert await tasks.of("client:default", begun["contextId"]) == []
