"""Loading of the turn: it is built once, even if the first task that needs it is cancelled."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.support.machine import ceiling

from fleetwright_agent.server.executors.turn_loader import TurnLoader


async def test_turn_loader_survives_a_cancelled_first_caller(scripted: Callable[..., Any]) -> None:
    built, go = [], threading.Event()

    def build() -> Any:
        go.wait(ceiling())
        built.append(scripted(None))
        return built[-1]

    turns = TurnLoader(build)
    first = asyncio.create_task(turns.get())
    await asyncio.sleep(0.01)
    first.cancel()
    with suppress(asyncio.CancelledError):
        await first
    second = asyncio.create_task(turns.get())
    await asyncio.sleep(0.01)
    go.set()
    assert await second is built[0]
    await turns.aclose()
    assert len(built) == 1
    assert built[0].closed


async def test_failed_import_is_reported_by_the_build() -> None:
    def fail() -> Any:
        raise ImportError("no such module")

    turns = TurnLoader(fail, imports=fail)
    await turns.import_modules()
    with pytest.raises(ImportError, match="no such module"):
        await turns.get()


@pytest.mark.parametrize("preload", [True, False])
async def test_preload_builds_the_turn_once_the_agent_is_ready(
    open_door: Callable[..., Any], mounted: Any, documents: Callable[..., dict[str, Any]], preload: bool
) -> None:
    mounted.write(mounted.layout.config_file, documents(preload=preload))
    door = await open_door()
    await asyncio.sleep(0)
    assert door.app.not_ready() is None
    assert (door.app._dependencies.turn_loader._building is not None) is preload
