"""A process that ends in the middle of a turn: tasks resume or fail, and no effect happens twice."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.machine import ceiling
from tests.support.waiting import await_until

from fleetwright_a2a.extensions import COST
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog

pytestmark = pytest.mark.starts_first


@pytest.fixture(
    params=[
        pytest.param("kill", id="killed"),
        pytest.param("leave", id="told to leave"),
    ]
)
def end(request):
    """Return a function that ends the process during the turn. A graceful stop waits a second for the turn."""

    async def of(guest):
        await getattr(guest, request.param)()

    return of


async def test_turn_killed_before_any_effect_is_resumed(agent_process, states, house, serve):
    with serve_held_model(serve, tool_results=0) as (model, settings):
        async with agent_process(**settings) as guest:
            task = await guest.say("Book table for 4", now=True)
            await model.wait_until_holding()
            await guest.kill()
        model.released.set()
        async with agent_process(**settings) as guest:
            done = await guest.rested(task)
            assert states(done) == "completed"
    assert house.ledger == ["table for 4"]


async def test_r1_r2_finished_tool_call_is_not_repeated_after_restart(agent_process, states, house, end, serve):
    with serve_held_model(serve, tool_results=1, pieces=3) as (model, settings):
        async with agent_process(**settings) as guest:
            task = await guest.say("Book table for 4", now=True)
            await told(guest, task)
            await end(guest)
        async with agent_process(**settings) as guest:
            follow = guest.events("SubscribeToTask", {"id": task["id"]})
            seen = [await anext(follow)]
            model.released.set()
            seen += [event async for event in follow]
            done = await guest.get(task)
    assert house.ledger == ["table for 4"]
    assert states(done) == "completed"
    (artifact,) = done["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == ("Here is what I found. A table for 4 is booked.")
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_task_cost_includes_usage_before_a_restart(agent_process, states, end, serve):
    price = {"inputPerMillion": "1", "outputPerMillion": "2"}
    with serve_held_model(serve, tool_results=1, pieces=3) as (model, settings):
        settings["model"]["price"] = price
        async with agent_process(**settings) as guest:
            task = await guest.say("Book table for 4", now=True)
            await told(guest, task)
            await end(guest)
        model.released.set()
        async with agent_process(**settings) as guest:
            interrupted = await guest.rested(task)
            # An incognito task sees no earlier conversation, so its prompt equals the interrupted task's prompt.
            whole = await guest.say("Book table for 4", metadata={"incognito": True})
        bills = [each["artifacts"][0]["metadata"][COST] for each in (interrupted, whole)]
        # The cost includes the interrupted call and its repetition.
        assert bills[0]["usage"]["output_tokens"] >= bills[1]["usage"]["output_tokens"] > 0
        assert [bill["success"] for bill in bills] == [True, True]
        assert bills[0]["costUsd"] >= 0.9 * bills[1]["costUsd"]


async def test_r1_interrupted_tool_call_is_not_repeated_and_fails_task(agent_process, states, house, end):
    async with agent_process() as guest:
        task = await guest.say("Cook a dish of 3 portions", now=True)
        await has_effects(house, 1)
        await end(guest)
    house.kitchen.set()
    async with agent_process() as guest:
        ended = await guest.rested(task)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "restart_tool_unknown"
        assert "house__cook_dish ran" in ended["status"]["message"]["parts"][0]["text"]
        after = await guest.say("Book table for 2", contextId=task["contextId"])
        assert states(after) == "completed"
    assert house.ledger == ["cooked 3", "table for 2"]


async def test_r1_interrupted_parallel_calls_are_not_repeated(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4; cook a dish of 3 portions [[together]]", now=True)
        await has_effects(house, 2)
        await guest.kill()
    async with agent_process() as guest:
        assert states(await guest.rested(task)) == "failed"
    assert sorted(house.ledger) == ["cooked 3", "table for 4"]


async def test_repeated_call_guard_survives_a_kill(agent_process, states, message, house, serve):
    """The guard counts repetitions and warnings in the stored conversation, so a restart does not reset it."""
    with serve_held_model(serve, tool_results=4) as (model, settings):
        async with agent_process(**settings) as guest:
            ordered = message("Book table for 4 [[again:9!]]")
            task = await guest.stream_until_completed(ordered, "house__book_table", times=4)
            assert await guest.metric('repeated_tool_calls_total{outcome="nudged"}') == 1
            await guest.kill_during(task)
        model.released.set()
        assert len(house.ledger) == 4
        async with agent_process(**settings) as guest:
            ended = await guest.rested(task)
            assert states(ended) == "failed"
            assert ended["status"]["message"]["metadata"]["reason"] == "repeated_tool_call"
            assert ended["status"]["message"]["metadata"]["repeated"] == {"tool": "house__book_table", "times": 6}
            assert await guest.metric('repeated_tool_calls_total{outcome="nudged"}') == 1, "no second warning"
    assert house.ledger == ["table for 4"] * 6


async def test_human_answer_in_progress_survives_a_kill(agent_process, states, message, house, serve):
    with serve_held_model(serve, tool_results=1) as (model, settings):
        settings |= {"approvals": {"tools": ["house__charge_card"]}}
        async with agent_process(**settings) as guest:
            task = await guest.say("Charge the card 30")
            await guest.stream_until_completed(message("yes", taskId=task["id"]), "house__charge_card")
            await guest.kill_during(task)
        model.released.set()
        async with agent_process(**settings) as guest:
            done = await guest.rested(task)
            assert states(done) == "completed"
            assert "The card is charged 30." in done["artifacts"][0]["parts"][0]["text"]
    assert house.ledger == ["charged 30"]


async def test_denial_after_an_expiry_survives_a_kill(agent_process, states, house, serve):
    """The kill hits after the denial was accepted, while the model reads it."""
    with serve_held_model(serve, tool_results=1) as (model, settings):
        settings |= {"approvals": {"tools": ["house__charge_card"], "expirySeconds": 1}}
        async with agent_process(**settings) as guest:
            task = await guest.say("Charge the card 30")
            await model.wait_until_holding()
            await guest.kill_during(task)
        model.released.set()
        async with agent_process(**settings) as guest:
            done = await guest.rested(task)
            assert states(done) == "completed"
            assert "was not approved in time" in done["artifacts"][0]["parts"][0]["text"]
    assert house.ledger == []


async def test_approval_that_expires_without_a_process_is_denied(agent_process, states, house):
    asking = {"approvals": {"tools": ["house__charge_card"], "expirySeconds": 1}}
    async with agent_process(**asking) as guest:
        task = await guest.say("Charge the card 30")
        await guest.kill()
    async with agent_process(**asking) as guest:

        async def is_completed():
            return states(await guest.get(task)) == "completed"

        await await_until(is_completed, "the task is completed after the expiry", pause=0.05)
    assert house.ledger == []


async def test_waiting_tasks_keep_their_order_across_restarts(agent_process, states, house, end, serve):
    limits = {"maxConcurrentTurns": 1, "highPriorityCallers": ["client:default"]}
    with serve_held_model(serve, tool_results=0, texts=["table for 1"]) as (model, settings):
        settings |= {"limits": limits, "approvals": {"tools": ["house__charge_card"]}}
        async with agent_process(**settings) as guest:
            asked = await guest.say("Charge the card 30")
            first = await guest.say("Book table for 1", now=True)
            await model.wait_until_holding()
            waiting = [await guest.say(f"Book table for {number}", now=True) for number in (2, 3)]
            await guest.say("yes", taskId=asked["id"], now=True)
            last = await guest.say("Book table for 4", now=True)
            urgent = await guest.say("Book table for 5", now=True, metadata={"priority": "high"})
            assert await guest.metric('turns{phase="waiting"}') == 5
            await end(guest)
        assert house.ledger == []
        model.released.set()
        async with agent_process(**settings) as guest:
            ends = [await guest.rested(task) for task in (first, urgent, *waiting, asked, last)]
    assert [states(task) for task in ends] == ["completed"] * 6
    tables = [f"table for {number}" for number in (1, 5, 2, 3)]
    assert house.ledger == [*tables, "charged 30", "table for 4"]


async def test_r2_queued_messages_are_answered_in_order(agent_process, states, end, serve):
    with serve_held_model(serve, tool_results=0, texts=["Hello there"]) as (model, settings):
        async with agent_process(**settings) as guest:
            first = await guest.say("Hello there, my friend.", now=True, contextId="shared")
            second = await guest.say("My dog is called Rex.", now=True, contextId="shared")
            third = await guest.say("What is my dog called?", now=True, contextId="shared")
            await model.wait_until_holding()
            await end(guest)
        model.released.set()
        async with agent_process(**settings) as guest:
            ends = [await guest.rested(task) for task in (first, second, third)]
    assert [states(task) for task in ends] == ["completed"] * 3
    assert "Rex" in ends[2]["artifacts"][0]["parts"][0]["text"]


async def test_human_answer_queued_behind_a_turn_survives_a_kill(agent_process, states, serve):
    with serve_held_model(serve, tool_results=0, pieces=2, texts=["called Rex"]) as (model, settings):
        async with agent_process(**settings) as guest:
            first = await guest.say("Ask the human about dessert", contextId="shared")
            second = await guest.say("My dog is called Rex.", now=True, contextId="shared")
            await told(guest, second)
            await guest.say("Cake", taskId=first["id"], now=True)
            await guest.kill()
        model.released.set()
        async with agent_process(**settings) as guest:
            ends = [await guest.rested(task) for task in (first, second)]
            assert [states(task) for task in ends] == ["completed"] * 2
            assert "Cake" in ends[0]["artifacts"][0]["parts"][0]["text"]
            assert "I read your message: My dog is called Rex." in ends[1]["artifacts"][0]["parts"][0]["text"]
            known = await guest.say("What is my dog called?", contextId="shared")
            assert "Rex" in known["artifacts"][0]["parts"][0]["text"]


async def test_human_answer_in_a_side_thread_survives_a_restart(agent_process, states, serve):
    with serve_held_model(serve, tool_results=1, pieces=2, texts=["dessert"]) as (model, settings):
        async with agent_process(**settings) as guest:
            first = await guest.say("Ask the human about dessert", contextId="shared")
            await guest.say("My dog is called Rex.", contextId="shared")
            await guest.say("Cake", taskId=first["id"], now=True)
            await model.wait_until_holding()
            await guest.leave()
        model.released.set()
        async with agent_process(**settings) as guest:
            done = await guest.rested(first)
            assert states(done) == "completed"
            assert "Cake" in done["artifacts"][0]["parts"][0]["text"]


async def test_r14_waiting_callers_learn_that_the_task_continues(agent_process, states, serve):
    with serve_held_model(serve, tool_results=0, pieces=2) as (model, settings):
        await leave_four_callers(agent_process, states, model, settings)


async def leave_four_callers(agent_process, states, model, settings):
    async with agent_process(**settings) as guest:
        waiting = asyncio.create_task(guest.say(TEXT))
        seen = asyncio.create_task(collected(guest, "My dog is called Rex."))
        older = [
            asyncio.create_task(last_line(guest, "0.3", "message/stream", OLDER)),
            asyncio.create_task(last_line(guest, "0.1", "tasks/sendSubscribe", OLDEST)),
        ]
        await model.wait_until_holding(4)
        await guest.leave()
        task, events = await waiting, await seen
        for said in await asyncio.gather(*older):
            assert (said["status"]["state"], said["final"]) == ("working", True)
    status = events[-1]["statusUpdate"]["status"]
    assert states(task) == states(events[-1]["statusUpdate"]) == "working"
    assert status["message"]["metadata"] == {"reason": "restart"}
    assert "will resume this task" in status["message"]["parts"][0]["text"]
    model.released.set()
    async with agent_process(**settings) as guest:
        for each in (task, events[0]["task"]):
            assert states(await guest.rested(each)) == "completed"


async def test_ephemeral_memory_fails_unfinished_tasks_at_shutdown(agent_process, states, serve):
    with serve_held_model(serve, tool_results=0) as (model, settings):
        async with agent_process(ephemeralMemory=True, **settings) as guest:
            waiting = asyncio.create_task(guest.say(TEXT))
            await model.wait_until_holding()
            await guest.leave()
            task = await waiting
    assert states(task) == "failed"
    assert task["status"]["message"]["metadata"]["reason"] == "shutdown"


TEXT = "Hello there, my friend."
OLDER = {
    "message": {"kind": "message", "messageId": "older", "role": "user", "parts": [{"kind": "text", "text": TEXT}]}
}
OLDEST = {"id": "oldest", "message": {"role": "user", "parts": [{"type": "text", "text": TEXT}]}}


async def last_line(guest, version, method, params):
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with guest.http() as http:
        told = (await http.post("/a2a", json=body, headers={"A2A-Version": version})).text
    return json.loads(told.strip().rsplit("data: ", 1)[1])["result"]


async def collected(guest, text):
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    return [event async for event in guest.events("SendStreamingMessage", {"message": message})]


async def told(guest, task):
    """Wait until the task produces output."""

    async def has_output():
        return (await guest.get(task)).get("artifacts")

    await await_until(has_output, "the task produces output", pause=0.05)


async def has_effects(house, number):
    """Wait until the tools have had this number of effects."""
    await await_until(lambda: len(house.ledger) >= number, f"{number} effects of tools", shown=lambda: house.ledger)


async def test_crashing_task_is_resumed_three_times_then_fails(agent_process, states):
    """A task whose process dies each time is resumed three times; its failure reports the cost."""
    async with agent_process() as guest:
        task = await guest.say("Book table for 4 [[pause:20]]", now=True)
        await told(guest, task)
        await guest.kill()
    for _ in range(3):
        async with agent_process() as guest:
            assert states(await guest.get(task)) == "working"
            await guest.kill()
    async with agent_process() as guest:
        ended = await guest.rested(task)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "restart"
        assert "the task is not retried" in ended["status"]["message"]["parts"][0]["text"]
        bill = ended["artifacts"][0]["metadata"][COST]
        assert bill["success"] is False
        assert bill["usage"]["input_tokens"] > 0
        assert bill["durationMs"] > 0
        assert states(await guest.say("Hello", contextId=task["contextId"])) == "completed"


class NeverTakenUp(SqliteTaskLog):
    """A log that cannot list running tasks: the server accepts requests, but no task resumes."""

    async def busy(self):
        raise TaskLogUnavailable("the disk is slow")


async def test_task_cancelled_before_its_resumption_has_its_cost(agent, mounted, states):
    async with agent() as guest:
        task = await guest.say("Book table for 4 [[pause:20]]", now=True)
        await told(guest, task)
    log = NeverTakenUp(mounted.layout.memory / "tasks.db")
    async with agent(log=log, ready=False) as guest:
        assert states(await guest.get(task)) == "working"
        ended = (await guest.call("CancelTask", {"id": task["id"]}))["result"]
    assert states(ended) == "canceled"
    bill = ended["artifacts"][0]["metadata"][COST]
    assert bill["success"] is False
    assert bill["usage"]["output_tokens"] > 0
    assert "".join(part["text"] for part in ended["artifacts"][0]["parts"]).startswith("Here")


async def test_queued_task_is_not_failed_with_a_crashing_one(agent_process, states):
    async with agent_process() as guest:
        task = await guest.say("Hello there, my friend. [[pause:20]]", now=True)
        await told(guest, task)
        behind = await guest.say("Hello", contextId=task["contextId"], now=True)
        await guest.kill()
    for _ in range(3):
        async with agent_process() as guest:
            assert states(await guest.get(task)) == "working"
            await guest.kill()
    async with agent_process() as guest:
        assert states(await guest.rested(task)) == "failed"
        assert states(await guest.rested(behind)) == "completed"


def shifted(mounted, change):
    with closing(sqlite3.connect(mounted.layout.memory / "tasks.db", timeout=ceiling())) as connection:
        (began,) = connection.execute("SELECT began_ns FROM tasks").fetchone()
        assert began is not None
        connection.executescript(change)


HOUR_NS = 3600 * 1_000_000_000


async def test_turn_time_limit_holds_across_restarts(agent_process, mounted, states):
    limits = {"maxTurnSeconds": 3600}
    async with agent_process(limits=limits) as guest:
        task = await guest.say("Hello there, my friend. [[pause:2]]", now=True)
        await told(guest, task)
        await guest.kill()
    shifted(mounted, f"UPDATE tasks SET began_ns = began_ns - {HOUR_NS}")
    async with agent_process(limits=limits) as guest:
        ended = await guest.rested(task)
    assert states(ended) == "failed"
    assert ended["status"]["message"]["metadata"]["reason"] == "deadline"


async def test_turn_time_limit_excludes_downtime(agent_process, mounted, states):
    limits = {"maxTurnSeconds": 3600}
    async with agent_process(limits=limits) as guest:
        task = await guest.say("Hello there, my friend. [[pause:0.5]]", now=True)
        await told(guest, task)
        await guest.kill()
    days = 72 * HOUR_NS
    shifted(
        mounted,
        f"UPDATE tasks SET began_ns = began_ns - {days}, updated_ns = updated_ns - {days};"
        f"UPDATE numbers SET alive_ns = max(0, alive_ns - {days})",
    )
    async with agent_process(limits=limits) as guest:
        assert states(await guest.rested(task)) == "completed"


async def test_drained_task_is_resumed_without_a_limit(agent_process, states):
    async with agent_process() as guest:
        task = await guest.say("Hello there, my friend. [[pause:20]]", now=True)
        await told(guest, task)
        await guest.kill()
    for end in ("kill", "kill", "leave", "kill", "kill", "kill"):
        async with agent_process() as guest:
            assert states(await guest.get(task)) == "working"
            await getattr(guest, end)()
    async with agent_process() as guest:
        assert states(await guest.rested(task)) == "failed"
