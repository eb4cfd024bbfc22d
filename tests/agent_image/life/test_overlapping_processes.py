"""Two processes of one agent follow each other or overlap, as its pods do: no effect happens twice, or costs twice."""

import asyncio
import fcntl
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx
import pytest
from tests.support.agent.held_model import serve_held_model
from tests.support.agent.reports import read_cost
from tests.support.waiting import await_until

pytestmark = pytest.mark.starts_first

BOOK, COOK = "Book table for {} people", "Cook a dish of {} portions"
"""A booking waits for the model before it calls its tool. A dish waits in the tool."""
FIRST = 100
"""All texts have numbers of three digits, and therefore the same number of tokens."""


async def leave(holder, release):
    """The task ends at the moment at which the process is told to leave."""
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
    """The process ends within a call of the model or of a tool, whose answer nobody reads."""
    holder.process.kill()
    await holder.process.wait()


async def freeze(holder, release):
    """The process stands still while its successor waits, and continues."""
    holder.process.send_signal(signal.SIGSTOP)
    release()
    holder.process.send_signal(signal.SIGCONT)
    holder.process.terminate()


@dataclass(frozen=True)
class Interruption:
    """A way to interrupt a process, and the consequences for its task."""

    name: str
    interrupt: Callable[..., Awaitable[None]]
    text: str
    overlaps: bool = False
    """The next process starts before this one is interrupted, and waits for the memory."""
    ends_successor: bool = False
    """The process that waits is killed too."""
    end: str = "completed"
    """How the task ends."""
    model_calls: int = 2

    @property
    def kills(self) -> bool:
        return self.interrupt is kill

    @property
    def continues(self) -> bool:
        """Whether the next process goes on with the task, by another call of the model."""
        return self.kills and self.text is BOOK


INTERRUPTIONS = (
    Interruption("delete the pod", leave, BOOK, overlaps=True),
    Interruption("evict the pod", leave_first, BOOK, overlaps=True),
    Interruption("drain the node", leave_first, BOOK),
    Interruption("scale to 0 and to 1", leave, COOK),
    Interruption("roll out", leave_first, COOK),
    Interruption("kill the process", kill, BOOK, model_calls=3),
    Interruption("stop and continue the process", freeze, BOOK, overlaps=True),
    Interruption("use up its memory", kill, COOK, end="failed", model_calls=1),
    Interruption("suspend the agent", leave_first, COOK),
    Interruption("restart the node", kill, BOOK, overlaps=True, ends_successor=True, model_calls=3),
    Interruption("delete the pod by force", kill, COOK, overlaps=True, end="failed", model_calls=1),
)


@dataclass
class Follower:
    """A caller that follows its task, and goes on at the next process when its stream breaks."""

    text: str
    successor: "asyncio.Future[Any]" = field(default_factory=asyncio.Future)
    """The process that is ready after the interruption."""
    task: dict[str, Any] = field(default_factory=dict)
    """The task; empty until the first event."""
    breaks: int = 0
    resumed: int = 0
    """The number of events after a break."""
    ended: bool = False
    """A stream has reported the end of the task."""

    async def follow(self, holder, message) -> dict[str, Any]:
        """Return the task, once it has ended."""
        with suppress(httpx.TransportError):
            async for event in holder.events("SendStreamingMessage", message(self.text)):
                self._note(event)
        if not self.ended:
            self.breaks += 1
            successor = await self.successor
            async for event in successor.events("SubscribeToTask", {"id": self.task["id"]}):
                self.resumed += 1
                self._note(event)
        return await (await self.successor).rested(self.task)

    def has_begun(self, following: "asyncio.Task[Any]") -> bool:
        """Return whether the stream has begun. Args: `following` runs `follow`, and may have failed."""
        return bool(self.task) or following.done()

    def has_resumed(self, following: "asyncio.Task[Any]") -> bool:
        return bool(self.resumed) or following.done()

    def _note(self, event) -> None:
        self.task = self.task or event.get("task") or {"id": event["statusUpdate"]["taskId"]}
        status = event.get("statusUpdate", {}).get("status", {}).get("state", "")
        self.ended = self.ended or status in {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}


async def replace_process(each, holder, start, release):
    """Interrupt the process, and return the one that is ready after it."""
    if each.overlaps:
        successor = await start()
        await await_until(partial(waits, successor), "the successor waits")
    if each.ends_successor:
        await successor.kill()
    await each.interrupt(holder, release)
    await holder.process.wait()
    if each.ends_successor or not each.overlaps:
        successor = await start()
    await successor.ready()
    return successor


def check_stream_and_cost(each, follower, cost, output):
    """Check what the caller saw and paid. Args: `output` is the number of output tokens of an undisturbed task."""
    assert follower.breaks == each.kills, each.name
    # The next process ends an interrupted call before a caller can follow the task again.
    assert follower.ended == (each.end == "completed"), each.name
    assert cost["modelCalls"] == each.model_calls, each.name
    if not each.kills:
        assert cost["usage"]["output_tokens"] == output, each.name
        assert (cost["toolCalls"], "estimated" in cost) == (1, False), each.name


@pytest.mark.parametrize("repetitions", [1, pytest.param(10, marks=pytest.mark.exhaustive)])
async def test_interruptions_repeat_no_call_charge_nothing_twice_and_lose_no_stream(
    agent_process, states, house, serve, message, repetitions
):
    wanted, costs, output = [], [], {}
    with serve_held_model(serve, tool_results=0, texts=["Book"]) as (model, settings):
        settings["model"] |= {"price": {"inputPerMillion": "1", "outputPerMillion": "2"}}

        def release():
            model.released.set()
            house.kitchen.set()

        def hold():
            model.released.clear()
            house.kitchen.clear()

        async with AsyncExitStack() as stack:

            async def start():
                return await stack.enter_async_context(agent_process(**settings, drainSeconds=60, ready=False))

            release()
            holder = await start()
            await holder.ready()
            for number, text in enumerate((BOOK, COOK), start=FIRST):
                costs.append(read_cost(await holder.say(text.format(number))))
                output[text] = costs[-1]["usage"]["output_tokens"]
            house.ledger.clear()
            for number, each in enumerate(INTERRUPTIONS * repetitions, start=FIRST + len(costs)):
                hold()
                held = model.held
                follower = Follower(each.text.format(number))
                following = asyncio.create_task(follower.follow(holder, message))
                await await_until(partial(follower.has_begun, following), "the stream begins")
                wanted.append(f"table for {number}" if each.text is BOOK else f"cooked {number}")
                if each.text is BOOK:
                    await model.wait_until_holding(held + 1)
                else:
                    await await_until(lambda: house.ledger == wanted, "the kitchen cooks")
                holder = await replace_process(each, holder, start, release)
                if each.continues:
                    await model.wait_until_holding(held + 2)
                follower.successor.set_result(holder)
                if each.continues:
                    await await_until(partial(follower.has_resumed, following), "the stream goes on")
                    release()
                task = await following
                assert states(task) == each.end, each.name
                costs.append(read_cost(task))
                check_stream_and_cost(each, follower, costs[-1], output[each.text])
            total = await holder.metric("llm_cost_usd_total")
    assert house.ledger == wanted
    assert sum(cost["modelCalls"] for cost in costs) == model.requests
    assert total == pytest.approx(sum(cost["costUsd"] for cost in costs), abs=1e-6 * len(costs)), "costs are rounded"


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
