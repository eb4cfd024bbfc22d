"""The prompts of a serving agent: accepted when it is ready, repeated while it is idle, and stopped by the drain."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from tests.support.waiting import await_until

from fleetwright_a2a.clock import Clock
from fleetwright_agent.protocol.frames import Frame, Text, TurnDone, TurnFailed, TurnRequest
from fleetwright_agent.server.prompts.prompt_scheduler import PREFLIGHT
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog

Open = Callable[..., Any]
OWN = "agent:team/echo"
EVERY = 600
PROMPTS = {"initialPrompt": "Begin.", "idlePrompt": {"text": "Look.", "everySeconds": EVERY}}


class MonotonicClock:
    """Monotonic time, which the test advances."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


async def answers(request: TurnRequest) -> AsyncIterator[Frame]:
    if request.text == "Look.":
        raise TurnFailed("model", "The model does not answer.")
    yield TurnDone(f"You said: {request.text}")


def ends_of(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the trigger and the state of each task that has ended."""
    records = [record for record in caplog.records if record.getMessage() == "task rests"]
    return [(getattr(record, "trigger", ""), record.state) for record in records]  # type: ignore[attr-defined]


async def test_agent_works_on_its_prompts_one_after_the_other(
    open_door: Open, mounted: Any, documents: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now = MonotonicClock()
    mounted.write(mounted.layout.config_file, documents(**PROMPTS))
    with caplog.at_level(logging.INFO, logger="fleetwright_agent"):
        door = await open_door(answers, clock=Clock(monotonic=now), retry_seconds=0.01)
        await await_until(lambda: len(ends_of(caplog)) == 1, "the first task ends")
        for number in (2, 3):  # The failure of an idle prompt does not end the prompts.
            now.advance(EVERY)
            await await_until(lambda number=number: len(ends_of(caplog)) == number, f"task {number} ends")
    assert ends_of(caplog) == [("initial-prompt", "completed"), ("idle-prompt", "failed"), ("idle-prompt", "failed")]
    wanted = [("Begin.", "initial-prompt"), ("Look.", "idle-prompt"), ("Look.", "idle-prompt")]
    assert [(each.text, each.context_id) for each in door.turn.requests] == wanted
    assert {each.owner for each in door.turn.requests} == {OWN}
    assert {(each.metadata["trigger"], each.metadata["priority"]) for each in door.turn.requests} == {
        ("initial-prompt", "low"),
        ("idle-prompt", "low"),
    }
    begun = [each for each in caplog.records if each.getMessage() == "the agent begins a task by itself"]
    ended = [each for each in caplog.records if each.getMessage() == "task rests"]
    assert [each.task for each in begun] == [each.task for each in ended]  # type: ignore[attr-defined]


async def test_task_of_a_caller_puts_off_the_idle_prompt(open_door: Open, mounted: Any, documents: Any) -> None:
    now, gate = MonotonicClock(), asyncio.Event()

    async def held(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Working. ")
        if request.text == "hello":
            await gate.wait()
        yield TurnDone("Done.")

    mounted.write(mounted.layout.config_file, documents(idlePrompt=PROMPTS["idlePrompt"]))
    door = await open_door(held, clock=Clock(monotonic=now), retry_seconds=0.01)
    task = await door.say("hello", now=True)
    now.advance(3 * EVERY)
    gate.set()
    await door.until(task["id"], "TASK_STATE_COMPLETED")
    now.advance(EVERY)
    await await_until(lambda: len(door.turn.requests) == 2, "the idle prompt begins")
    assert [each.text for each in door.turn.requests] == ["hello", "Look."]


async def test_drain_stops_the_prompts_and_keeps_an_accepted_one(open_door: Open, mounted: Any, documents: Any) -> None:
    log, storage, gate = MemoryTaskLog(), memory_storage(), asyncio.Event()

    async def held(_: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Working. ")
        await gate.wait()
        yield TurnDone("Done.")

    mounted.write(mounted.layout.config_file, documents(initialPrompt="Begin."))
    door = await open_door(held, log=log, storage=storage, retry_seconds=0.01)
    await await_until(lambda: door.turn.requests, "the initial prompt begins")
    draining = asyncio.create_task(door.app.drain())
    gate.set()
    await draining
    assert await log.busy() == ()
    assert await log.has_accepted("initial-prompt")


async def test_program_that_serves_in_a_preflight_sends_no_prompt(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(**PROMPTS))
    log, environment = MemoryTaskLog(), {PREFLIGHT: "true"}
    door = await open_door(answers, log=log, environment=environment, retry_seconds=0.01)
    # A message is answered after the first check of the prompts.
    await door.say("hello")
    assert [each.text for each in door.turn.requests] == ["hello"]
    assert await log.has_accepted("initial-prompt") is False


class Counting(AgentExecutor):
    """An executor of the a2a-sdk that completes each task, and records its text."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.texts.append(context.get_user_input())
        assert context.task_id is not None
        assert context.context_id is not None
        on = TaskUpdater(event_queue, context.task_id, context.context_id)
        await on.start_work()
        await on.add_artifact([Part(text="Done.")], name="answer")
        await on.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: the work ends at once."""


async def test_foreign_executor_gets_the_prompts(open_door: Open, mounted: Any, documents: Any) -> None:
    now, executor = MonotonicClock(), Counting()
    mounted.write(mounted.layout.config_file, documents(**PROMPTS))
    await open_door(executor=executor, clock=Clock(monotonic=now), retry_seconds=0.01)
    await await_until(lambda: executor.texts == ["Begin."], "the executor gets the initial prompt")

    def looks() -> bool:
        now.advance(EVERY)
        return executor.texts == ["Begin.", "Look."]

    await await_until(looks, "the executor gets the idle prompt", shown=lambda: executor.texts)
