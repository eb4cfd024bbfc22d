"""A process that ends in the middle of a turn: tasks resume or fail, and no effect happens twice."""

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest

from fleetwright_a2a.extensions import COST
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog


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


async def test_a_turn_that_was_killed_before_any_effect_goes_on(agent_process, states, house):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4", now=True)
        await guest.kill()
    async with agent_process() as guest:
        done = await guest.rested(task)
        assert states(done) == "completed"
    assert house.ledger == ["table for 4"]


async def test_r1_r2_a_tool_that_has_answered_is_not_called_again_and_the_answer_is_told_once(
    agent_process, states, house, end
):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4 [[pause:0.5]]", now=True)
        await told(guest, task)
        await end(guest)
    async with agent_process() as guest:
        follow = guest.events("SubscribeToTask", {"id": task["id"]})
        seen = [event async for event in follow]
        done = await guest.get(task)
    assert house.ledger == ["table for 4"]
    assert states(done) == "completed"
    (artifact,) = done["artifacts"]
    assert "".join(part["text"] for part in artifact["parts"]) == ("Here is what I found. A table for 4 is booked.")
    assert seen[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_the_bill_holds_what_was_used_before_the_process_ended(agent_process, states, end):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4 [[pause:0.2]]", now=True)
        await told(guest, task)
        await end(guest)
    async with agent_process() as guest:
        interrupted = await guest.rested(task)
        # An incognito task sees no earlier conversation, so its prompt equals the interrupted task's prompt.
        whole = await guest.say("Book table for 4 [[pause:0]]", metadata={"incognito": True})
        bills = [each["artifacts"][0]["metadata"][COST] for each in (interrupted, whole)]
        # The cost includes the interrupted call and its repetition.
        assert bills[0]["usage"]["output_tokens"] >= bills[1]["usage"]["output_tokens"] > 0
        assert [bill["success"] for bill in bills] == [True, True]
        assert bills[0]["costUsd"] >= 0.9 * bills[1]["costUsd"]


async def test_r1_a_tool_that_was_running_is_not_called_again_and_the_task_says_why_it_ended(
    agent_process, states, house, end
):
    async with agent_process() as guest:
        task = await guest.say("Cook a dish of 3 portions", now=True)
        await until(lambda: ledger(house), 1)
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


async def test_r1_of_two_calls_the_one_that_ended_keeps_its_result_and_neither_is_made_again(
    agent_process, states, house
):
    async with agent_process() as guest:
        task = await guest.say("Book table for 4; cook a dish of 3 portions [[together]]", now=True)
        await until(lambda: ledger(house), 2)
        await guest.kill()
    async with agent_process() as guest:
        assert states(await guest.rested(task)) == "failed"
    assert sorted(house.ledger) == ["cooked 3", "table for 4"]


async def test_a_kill_gives_a_model_that_repeats_itself_no_further_calls(agent_process, states, house):
    """The guard counts repetitions and warnings in the stored conversation, so a restart does not reset it."""
    async with agent_process() as guest:
        task = await guest.say("Book table for 4 [[again:9!]] [[think:5]] [[pause:0.1]]", now=True)
        await until(lambda: ledger(house), 4)
        await asyncio.sleep(0.2)  # The model thinks for longer than that before its next call.
        assert await guest.metric('repeated_tool_calls_total{outcome="nudged"}') == 1
        await guest.kill()
    assert len(house.ledger) == 4
    async with agent_process() as guest:
        ended = await guest.rested(task)
        assert states(ended) == "failed"
        assert ended["status"]["message"]["metadata"]["reason"] == "repeated_tool_call"
        assert ended["status"]["message"]["metadata"]["repeated"] == {"tool": "house__book_table", "times": 6}
        assert await guest.metric('repeated_tool_calls_total{outcome="nudged"}') == 0
    assert house.ledger == ["table for 4"] * 6


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


async def test_r2_messages_that_waited_for_their_turn_are_answered_in_their_order(agent_process, states, end):
    async with agent_process() as guest:
        first = await guest.say("Hello there, my friend. [[pause:0.5]]", now=True, contextId="shared")
        second = await guest.say("My dog is called Rex.", now=True, contextId="shared")
        third = await guest.say("What is my dog called?", now=True, contextId="shared")
        await asyncio.sleep(0.3)
        await end(guest)
    async with agent_process() as guest:
        ends = [await guest.rested(task) for task in (first, second, third)]
    assert [states(task) for task in ends] == ["completed"] * 3
    assert "Rex" in ends[2]["artifacts"][0]["parts"][0]["text"]


async def test_a_reply_that_waited_behind_a_running_turn_of_its_conversation_spoils_neither(agent_process, states):
    async with agent_process() as guest:
        first = await guest.say("Ask the human about dessert", contextId="shared")
        second = await guest.say("My dog is called Rex. [[pause:0.5]]", now=True, contextId="shared")
        await told(guest, second)
        await guest.say("Cake", taskId=first["id"], now=True)
        await guest.kill()
    async with agent_process() as guest:
        ends = [await guest.rested(task) for task in (first, second)]
        assert [states(task) for task in ends] == ["completed"] * 2
        assert "Cake" in ends[0]["artifacts"][0]["parts"][0]["text"]
        assert "I read your message: My dog is called Rex." in ends[1]["artifacts"][0]["parts"][0]["text"]
        known = await guest.say("What is my dog called?", contextId="shared")
        assert "Rex" in known["artifacts"][0]["parts"][0]["text"]


async def test_a_reply_to_a_task_apart_from_its_conversation_goes_on(agent_process, states):
    async with agent_process() as guest:
        first = await guest.say("Ask the human about dessert [[pause:0.5]]", contextId="shared")
        await guest.say("My dog is called Rex.", contextId="shared")
        await guest.say("Cake", taskId=first["id"], now=True)
        await told(guest, first)
        await guest.leave()
    async with agent_process() as guest:
        done = await guest.rested(first)
        assert states(done) == "completed"
        assert "Cake" in done["artifacts"][0]["parts"][0]["text"]


async def test_r14_whoever_waits_hears_that_the_task_goes_on_after_the_restart(agent_process, states):
    async with agent_process() as guest:
        waiting = asyncio.create_task(guest.say("Hello there, my friend. [[pause:0.5]]"))
        seen = asyncio.create_task(collected(guest, "My dog is called Rex. [[pause:0.5]]"))
        older = [
            asyncio.create_task(last_line(guest, "0.3", "message/stream", OLDER)),
            asyncio.create_task(last_line(guest, "0.1", "tasks/sendSubscribe", OLDEST)),
        ]
        await until(lambda: running(guest), 4)
        await guest.leave()
        task, events = await waiting, await seen
        for said in await asyncio.gather(*older):
            assert (said["status"]["state"], said["final"]) == ("working", True)
    status = events[-1]["statusUpdate"]["status"]
    assert states(task) == states(events[-1]["statusUpdate"]) == "working"
    assert status["message"]["metadata"] == {"reason": "restart"}
    assert "will resume this task" in status["message"]["parts"][0]["text"]
    async with agent_process() as guest:
        for each in (task, events[0]["task"]):
            assert states(await guest.rested(each)) == "completed"


async def test_where_memory_ends_with_the_pod_what_is_not_done_fails_with_a_reason(agent_process, states):
    async with agent_process(ephemeralMemory=True) as guest:
        waiting = asyncio.create_task(guest.say("Hello there, my friend. [[pause:0.5]]"))
        await until(lambda: running(guest), 1)
        await guest.leave()
        task = await waiting
    assert states(task) == "failed"
    assert task["status"]["message"]["metadata"]["reason"] == "shutdown"


TEXT = "Hello there, my friend. [[pause:0.5]]"
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
    async with asyncio.timeout(90):
        while not (await guest.get(task)).get("artifacts"):  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.05)


async def running(guest):
    return len((await guest.call("ListTasks", {}))["result"]["tasks"])


async def ledger(house):
    return len(house.ledger)


async def until(look, wanted):
    async with asyncio.timeout(90):
        while await look() < wanted:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)


async def test_a_task_that_ends_each_of_its_processes_is_taken_up_three_times_and_its_end_tells_its_cost(
    agent_process, states
):
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


async def test_a_task_that_is_cancelled_before_it_is_taken_up_again_tells_its_cost(agent, mounted, states):
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


async def test_a_task_that_never_began_is_not_given_up_with_the_one_before_it(agent_process, states):
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
    with closing(sqlite3.connect(mounted.layout.memory / "tasks.db", timeout=10)) as connection:
        (began,) = connection.execute("SELECT began_ns FROM tasks").fetchone()
        assert began is not None
        connection.executescript(change)


HOUR_NS = 3600 * 1_000_000_000


async def test_the_time_limit_of_a_turn_holds_over_restarts(agent_process, mounted, states):
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


async def test_the_time_between_two_processes_is_not_the_turns(agent_process, mounted, states):
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


async def test_a_task_that_is_left_in_good_order_is_taken_up_without_end(agent_process, states):
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
