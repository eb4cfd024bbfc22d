"""Push and the end of the process: a kill between commit and delivery, and a graceful stop."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import httpx
import pytest
from e2e.cluster.ports import free_ports
from tests.support.agent.fork_server import STEERED_AGENT, ForkedProcess, ForkServer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import within

HEADERS = {"A2A-Version": "1.0", "Authorization": "Bearer token-of-default"}
HANG = 0


@pytest.fixture
def start(fork_server: ForkServer, mounted: Any) -> Callable[[], Any]:
    """Return a function that starts the agent on the mounted files, and kills it at the end if it still runs."""

    @asynccontextmanager
    async def of() -> AsyncIterator[tuple[ForkedProcess, httpx.AsyncClient]]:
        ports = free_ports()
        process = fork_server.start([str(mounted.layout.root), *map(str, ports)], entry=STEERED_AGENT)
        try:
            url = f"http://127.0.0.1:{ports[0]}"
            async with httpx.AsyncClient(verify=NO_TLS, base_url=url, headers=HEADERS, timeout=ceiling()) as http:
                await _ready(ports[1], process)
                yield process, http
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    return of


async def _ready(port: int, process: ForkedProcess) -> None:
    async with (
        within("the agent is ready"),
        httpx.AsyncClient(verify=NO_TLS, base_url=f"http://127.0.0.1:{port}", timeout=ceiling()) as ops,
    ):
        while True:
            try:
                if (await ops.get("/readyz")).status_code == 200:
                    return
            except httpx.TransportError:
                assert process.returncode is None, "the agent process exited"
            await asyncio.sleep(0.02)


async def say(http: httpx.AsyncClient, text: str, url: str) -> str:
    message = {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}]}
    configuration = {"returnImmediately": True, "taskPushNotificationConfig": {"url": url, "token": "t"}}
    params = {"message": message, "configuration": configuration}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    answer = (await http.post("/a2a", json=body)).json()
    assert "error" not in answer, answer
    identifier: str = answer["result"]["task"]["id"]
    return identifier


async def test_push_is_delivered_after_a_kill_before_delivery(
    mounted: Any, documents: Any, mount: Any, receive: Any, start: Any
) -> None:
    hook = await receive(HANG, 200)
    mount(mounted, documents, [hook])
    async with start() as (process, http):
        task = await say(http, "hello", hook.url)
        await hook.until(1)  # the end is committed, but the receiver has not accepted the notification
        process.kill()
        await process.wait()
    async with start():
        await hook.until(2)
    first, second = hook.heard
    assert first == second
    assert (second[1]["task"]["id"], hook.states) == (task, ["COMPLETED", "COMPLETED"])


async def test_push_notifies_of_a_task_failed_by_a_kill(
    mounted: Any, documents: Any, mount: Any, receive: Any, start: Any
) -> None:
    hook = await receive()
    mount(mounted, documents, [hook])
    async with start() as (process, http):
        await say(http, "hang", hook.url)
        process.kill()
        await process.wait()
    async with start():
        await hook.until_state("FAILED")
    assert hook.heard[-1][0]["authorization"] == "Bearer t"


async def test_push_credentials_are_reencrypted_with_the_newest_key(
    mounted: Any, documents: Any, mount: Any, receive: Any, start: Any
) -> None:
    hook = await receive()
    mount(mounted, documents, [hook])
    file = mounted.layout.configuration / "push/keys"
    former, newest = await asyncio.to_thread(file.read_text), "A" * 43 + "=\n"
    async with start() as (process, http):
        await say(http, "hang", hook.url)
        process.kill()
        await process.wait()
    hook.script = [500]
    await asyncio.to_thread(file.write_text, newest + former)
    async with start() as (process, _):
        await hook.until_state("FAILED")
        process.kill()
        await process.wait()
    hook.script = [200]
    hook.heard.clear()
    await asyncio.to_thread(file.write_text, newest)
    async with start():
        await hook.until(1)
    assert (hook.states, hook.heard[0][0]["authorization"]) == (["FAILED"], "Bearer t")


async def test_push_notifies_of_tasks_that_end_at_shutdown(
    mounted: Any, documents: Any, mount: Any, receive: Any, start: Any
) -> None:
    hook = await receive()
    mount(mounted, documents, [hook])
    async with start() as (process, http):
        await say(http, "hang", hook.url)
        process.terminate()
        async with within("the process ends"):
            assert await process.wait() == 0
    # An update is sent before the end if the task has worked for longer than the pause between updates.
    assert hook.states in (["FAILED"], ["WORKING", "FAILED"])


async def test_push_hanging_receiver_does_not_delay_shutdown(
    mounted: Any, documents: Any, mount: Any, receive: Any, start: Any
) -> None:
    hook = await receive(HANG)
    mount(mounted, documents, [hook])
    async with start() as (process, http):
        await say(http, "hello", hook.url)
        await hook.until(1)
        process.terminate()
        async with within("the process ends"):
            assert await process.wait() == 0
    with closing(sqlite3.connect(mounted.layout.memory / "tasks.db")) as log:
        assert log.execute("SELECT attempts FROM outbox").fetchall() == [(0,)], "the attempt was not waited for"
