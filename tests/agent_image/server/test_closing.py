"""Shutdown of an agent: a failing step does not stop the later steps."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from fleetwright_agent.app import create_app
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.storage import sqlite_storage


class Breaks(Database):
    async def aclose(self) -> None:
        await super().aclose()
        raise OSError("the volume is gone")


class Answers:
    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncIterator[Frame]:
        yield TurnDone(request.text)

    async def aclose(self) -> None:
        """No resources to release."""


async def test_app_close_continues_after_a_failing_step(mounted: Any) -> None:
    before = set(threading.enumerate())  # other tests of this worker may leave threads behind
    conversations = Breaks(mounted.layout.memory / schema.FILE, schema.SCHEMA)
    storage = sqlite_storage(mounted.layout.memory, conversations=conversations)
    app = create_app(mounted.config(), layout=mounted.layout, turn=Answers(), storage=storage)
    await app.start()
    await app.drain()
    with pytest.raises(OSError, match="the volume is gone"):
        await app.aclose()
    names = {thread.name for thread in {*threading.enumerate()} - before}
    assert not any(name.startswith(("task-log", "sqlite-conversations")) for name in names), names


class HeldLog(MemoryTaskLog):
    """A log that stores an accepted task only when the test allows it, as on a slow volume."""

    def __init__(self) -> None:
        super().__init__()
        self.accepting, self.stored = asyncio.Event(), asyncio.Event()

    async def accept(self, *parts: Any, **named: Any) -> Any:
        self.accepting.set()
        await self.stored.wait()
        return await super().accept(*parts, **named)


class Slow(Answers):
    """A turn that answers only when the test allows it, and that fails if its parts are closed meanwhile."""

    def __init__(self) -> None:
        self.begun, self.answered, self.closed = asyncio.Event(), asyncio.Event(), False

    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncIterator[Frame]:
        self.begun.set()
        await self.answered.wait()
        if self.closed:
            raise OSError("the turn is closed")
        yield TurnDone(request.text)

    async def aclose(self) -> None:
        self.closed = True
        self.answered.set()
        # A run that still works sees that its turn is closed.
        for _ in range(20):
            await asyncio.sleep(0)


async def test_run_that_begins_after_the_drain_is_drained_too(mounted: Any) -> None:
    log, turn = HeldLog(), Slow()
    app = create_app(mounted.config(), layout=mounted.layout, turn=turn, log=log, storage=memory_storage())
    await app.start()
    headers = {"A2A-Version": "1.0", "Authorization": "Bearer token-of-default"}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    transport = httpx.ASGITransport(app.a2a)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent", headers=headers) as http:
        sending = asyncio.create_task(http.post("/a2a/message:send", json={"message": message}))
        async with asyncio.timeout(10):
            await log.accepting.wait()
            await app.drain()
            log.stored.set()
            await turn.begun.wait()
            await app.aclose()
            task_id = (await sending).json()["task"]["id"]
    next_app = create_app(mounted.config(), layout=mounted.layout, turn=Answers(), log=log, storage=memory_storage())
    await next_app.start()
    transport = httpx.ASGITransport(next_app.a2a)
    async with httpx.AsyncClient(transport=transport, base_url="http://agent", headers=headers) as http:
        status = (await http.get(f"/a2a/tasks/{task_id}")).json()["status"]
    await next_app.drain()
    await next_app.aclose()
    # This executor cannot resume tasks. An executor that can leaves the task to the next process.
    assert status["state"] == "TASK_STATE_FAILED"
    assert "shut down before this task was done" in status["message"]["parts"][0]["text"], status
