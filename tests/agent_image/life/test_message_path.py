"""The path of a message: the modules that wait for the model, from the socket to the model client."""

import asyncio
import gc
import inspect
from collections.abc import Iterator
from typing import Any

from tests.support.waiting import within

MOST_MODULES = 30


def waiting_modules(coroutine: Any) -> Iterator[str]:
    """Yield the module of each coroutine and generator that waits for the next one."""
    while coroutine is not None:
        frame = next(
            filter(None, (getattr(coroutine, name, None) for name in ("cr_frame", "ag_frame", "gi_frame"))), None
        )
        if frame is None:
            # The object that advances an asynchronous generator names the generator only to the garbage collector.
            held = (
                each for each in gc.get_referents(coroutine) if inspect.isasyncgen(each) or inspect.iscoroutine(each)
            )
            coroutine = next(held, None)
            continue
        yield str(frame.f_globals.get("__name__"))
        names = ("cr_await", "ag_await", "gi_yieldfrom")
        coroutine = next(filter(None, (getattr(coroutine, name, None) for name in names)), None)


async def test_message_passes_few_modules_on_its_way_to_the_model(agent: Any) -> None:
    async with agent() as guest:
        await guest.say("Hello")
        before = asyncio.all_tasks()
        saying = asyncio.create_task(guest.say("Hello, my friend. [[pause:20]]"))
        path: set[str] = set()
        async with within("the turn waits for the stream of the model"):
            while "fleetwright_agent.turn.providers.streaming" not in path:
                await asyncio.sleep(0.02)
                coroutines = [task.get_coro() for task in asyncio.all_tasks() - before]
                path = {
                    name for each in coroutines for name in waiting_modules(each) if name.startswith("fleetwright_")
                }
        saying.cancel()
    assert len(path) <= MOST_MODULES, sorted(path)
    assert "fleetwright_a2a.http.edge" in path
    assert "fleetwright_agent.turn.graph_turn" in path
