"""Two processes of one agent overlap, as the pods of a deleted or evicted agent do: no effect happens twice."""

import fcntl
import signal
from contextlib import AsyncExitStack
from functools import partial

import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.waiting import await_until

pytestmark = pytest.mark.starts_first

BOOK, COOK = "Book table for {} people", "Cook a dish of {} portions"


async def leave(holder, release):
    """A deletion, an eviction, a drain of the node or a suspension: the process finishes its tasks."""
    holder.process.terminate()
    release()


async def leave_first(holder, release):
    """The task ends long after the process was told to leave."""
    holder.process.terminate()
    await await_until(lambda: is_leaving(holder), "the process drains")
    release()


async def is_leaving(holder):
    return (await holder.status()).get("reason") == "the agent is shutting down"


async def kill(holder, release):
    """A lost node, too little memory, or a deletion by force."""
    holder.process.kill()
    await holder.process.wait()
    release()


async def freeze(holder, release):
    """The process stands still while its successor waits, and continues."""
    holder.process.send_signal(signal.SIGSTOP)
    release()
    holder.process.send_signal(signal.SIGCONT)
    holder.process.terminate()


INTERRUPTIONS = (
    (leave, BOOK, "completed"),
    (kill, BOOK, "completed"),
    (leave_first, BOOK, "completed"),
    (freeze, BOOK, "completed"),
    (kill, COOK, "failed"),
)
"""The interruption, the message of the interrupted task, and how the task ends.

A booking waits for the model before it calls its tool. A dish waits in the tool.
"""


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.exhaustive)])
async def test_successor_of_an_interrupted_process_repeats_no_call_of_a_tool(
    agent_process, states, house, serve, rounds
):
    wanted = []
    with serve_held_model(serve, tool_results=0, texts=["Book"]) as (model, settings):
        settings |= {"drainSeconds": 60}
        async with AsyncExitStack() as stack:
            holder = await stack.enter_async_context(agent_process(**settings))
            for number in range(rounds):
                interrupt, text, end = INTERRUPTIONS[number % len(INTERRUPTIONS)]
                model.released.clear()
                house.kitchen.clear()
                held = model.held
                task = await holder.say(text.format(number), now=True)
                wanted.append(f"table for {number}" if text is BOOK else f"cooked {number}")
                if text is BOOK:
                    await model.wait_until_holding(held + 1)
                else:
                    await await_until(lambda: house.ledger == wanted, "the kitchen cooks")
                successor = await stack.enter_async_context(agent_process(**settings, ready=False))
                await await_until(partial(waits, successor), "the successor waits")
                await interrupt(holder, model.released.set)
                house.kitchen.set()
                await successor.ready()
                assert states(await successor.rested(task)) == end, (number, interrupt.__name__)
                holder = successor
    assert house.ledger == wanted


async def waits(holder):
    return "waitsForMemory" in await holder.status()


async def test_volume_that_cannot_be_locked_is_reported_until_it_can(agent, states, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lambda _file, _operation: None)
        async with agent(ready=False) as holder:
            reason = (await holder.status())["reason"]
            patched.undo()
            await holder.ready()
            assert states(await holder.say("Book table for 4")) == "completed"
    expected = "the memory volume cannot be locked: its file system does not exclude other processes with flock"
    assert reason == expected
