"""One process for each memory volume: a second agent waits for the first, however the first ends."""

import asyncio
import json
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent.agent_process import AgentProcess
from tests.support.waiting import within

WAITS = f"waiting for the memory volume, which {socket.gethostname()} still uses\n"


@pytest.fixture
async def pair(start: Any, mounted: Any):
    """Two agents on one volume. The second one waits."""
    config = json.loads(mounted.layout.config_file.read_text())
    mounted.write(mounted.layout.config_file, config | {"drainSeconds": 60})
    async with AsyncExitStack() as stack:
        first: AgentProcess = await stack.enter_async_context(start())
        second: AgentProcess = await stack.enter_async_context(start(ready=False))
        assert await second.reason() == WAITS
        yield first, second


async def test_waiting_agent_is_alive_and_reports_the_holder(pair):
    _, second = pair
    assert (await second.ops.get("/healthz")).status_code == 200
    status = (await second.ops.get("/status")).json()
    assert status["waitsForMemory"] == {"holder": socket.gethostname()}
    assert status["ready"] is False
    refused = await second.a2a.post("/a2a", json=_message("hello"))
    assert (refused.status_code, refused.headers["fleetwright-not-accepted"]) == (503, "true")


async def test_waiting_agent_opens_no_file_of_the_memory(pair, mounted):
    first, second = pair
    opened = {fd.readlink() for fd in _descriptors(second)}
    assert not {path for path in opened if mounted.layout.memory in path.parents and path.name != "lock"}
    assert (await first.say("hello", "m1"))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_waiting_agent_starts_when_the_holder_ends(pair, how):
    first, second = pair
    done = await first.say("hello", "m1")
    first.process.send_signal(how)
    await second.ready()
    assert (await second.call("GetTask", {"id": done["id"]}))["result"] == done


async def test_result_within_the_drain_is_kept_and_the_callers_stream_ends_with_it(pair):
    first, second = pair
    events: list[dict[str, Any]] = []
    begun = asyncio.Event()

    async def read() -> None:
        async for event in first.events("wait 1.5", "m1"):
            events.append(event)
            begun.set()

    reading = asyncio.ensure_future(read())
    await begun.wait()
    first.process.terminate()
    async with within("the stream ends"):
        await reading
    assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    await second.ready()
    task = events[0]["task"]["id"]
    assert (await second.call("GetTask", {"id": task}))["result"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_frozen_holder_keeps_the_memory(pair):
    first, second = pair
    first.process.send_signal(signal.SIGSTOP)
    try:
        assert await second.reason() == WAITS
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert (await first.say("hello", "m1"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_waiting_agent_that_is_told_to_leave_ends_at_once_and_changes_nothing(pair):
    first, second = pair
    second.process.terminate()
    async with within("the waiting agent ends"):
        assert await second.process.wait() == 0
    assert (await first.say("hello", "m1"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_process_whose_lock_was_taken_away_writes_nothing_more(start, mounted):
    """A file server that restarts may lose its locks."""
    async with start() as first:
        done = await first.say("hello", "m1")
        (mounted.layout.memory / "lock").unlink()
        async with start() as second:
            refused = (await first.a2a.post("/a2a", json=_message("late"))).json()
            assert refused["error"]["code"] == -32603
            assert "another process writes it since" in await first.reason()
            assert (await second.call("GetTask", {"id": done["id"]}))["result"] == done
            assert (await second.say("hello", "late"))["status"]["state"] == "TASK_STATE_COMPLETED"


def _descriptors(agent: AgentProcess):
    return Path(f"/proc/{agent.process.pid}/fd").iterdir()


def _message(text: str) -> dict[str, Any]:
    message = {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
