"""Shutdown of an agent: a failing step does not stop the later steps."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import TaskState
from tests.support.waiting import within

from fleetwright_a2a.task_events import Event, status_event
from fleetwright_agent.app import create_app
from fleetwright_agent.process.application import Application
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.server.executors.port import Emit, TaskJob
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


HEADERS = {"A2A-Version": "1.0", "Authorization": "Bearer token-of-default"}


class BlockingTaskLog(MemoryTaskLog):
    """A log that stores an accepted task only when the test allows it, as on a slow volume."""

    def __init__(self) -> None:
        super().__init__()
        self.accepting, self.allowed = asyncio.Event(), asyncio.Event()

    async def accept(self, *parts: Any, **named: Any) -> Any:
        self.accepting.set()
        await self.allowed.wait()
        return await super().accept(*parts, **named)


class BlockingTurn(Answers):
    """A turn that works until it is closed, and then fails."""

    def __init__(self) -> None:
        self.begun, self.closed = asyncio.Event(), asyncio.Event()

    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncIterator[Frame]:
        self.begun.set()
        await self.closed.wait()
        raise OSError("the turn is closed")
        yield

    async def aclose(self) -> None:
        self.closed.set()
        # A run that still works sees that its turn is closed.
        for _ in range(20):
            await asyncio.sleep(0)


class ResumableExecutor:
    """An executor whose tasks work until the process ends, and complete in the next process."""

    recovers = True

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    def begin(self, job: TaskJob, emit: Emit) -> "_Work":
        return _Work(job, self.begun, ends=False)

    def recover(self, job: TaskJob, emit: Emit) -> "_Work":
        return _Work(job, self.begun, ends=True)


class _Work:
    def __init__(self, job: TaskJob, begun: asyncio.Event, *, ends: bool) -> None:
        self._job, self._begun, self._ends = job, begun, ends

    async def run(self) -> Sequence[Event]:
        self._begun.set()
        if not self._ends:
            await asyncio.Event().wait()
        return self._status(TaskState.TASK_STATE_COMPLETED)

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return self._status(outcome.state)

    def _status(self, state: TaskState.ValueType) -> Sequence[Event]:
        return (status_event(self._job.task_id, self._job.context_id, state, at_ns=1),)


async def close_with_a_late_run(mounted: Any, begun: asyncio.Event, **parts: Any) -> dict[str, Any]:
    """Let a message be stored after the drain, close the agent, and return the status that its next process shows."""
    log = BlockingTaskLog()
    app = create_app(mounted.config(), layout=mounted.layout, log=log, storage=memory_storage(), **parts)
    await app.start()
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    async with within("the application closes, and the next process ends the task"):
        async with client(app) as http:
            sending = asyncio.create_task(http.post("/a2a/message:send", json={"message": message}))
            await log.accepting.wait()
            await app.drain()
            log.allowed.set()
            await begun.wait()
            await app.aclose()
            task_id = (await sending).json()["task"]["id"]
        following = create_app(mounted.config(), layout=mounted.layout, log=log, storage=memory_storage(), **parts)
        await following.start()
        async with client(following) as http:
            message = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
            await http.post("/a2a", json=message)  # Returns when the task has ended.
            status: dict[str, Any] = (await http.get(f"/a2a/tasks/{task_id}")).json()["status"]
        await following.drain()
        await following.aclose()
    return status


def client(app: Application) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app.a2a), base_url="http://agent", headers=HEADERS)


async def test_run_that_begins_after_the_drain_is_stopped_too(mounted: Any) -> None:
    turn = BlockingTurn()
    status = await close_with_a_late_run(mounted, turn.begun, turn=turn)
    assert status["state"] == "TASK_STATE_FAILED"
    assert "shut down before this task was done" in status["message"]["parts"][0]["text"], status


async def test_run_that_begins_after_the_drain_is_resumed(mounted: Any) -> None:
    executor = ResumableExecutor()
    status = await close_with_a_late_run(mounted, executor.begun, executor=executor)
    assert status["state"] == "TASK_STATE_COMPLETED"
