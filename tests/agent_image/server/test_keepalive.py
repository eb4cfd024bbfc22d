"""Idle streams: proxies must neither close them nor buffer their events."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from tests.support.waiting import within

from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_agent.protocol.frames import Frame, Text, TurnRequest

Open = Callable[..., Any]
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
OLDER = {"messageId": "m", "role": "user", "kind": "message", "parts": [{"kind": "text", "text": "x"}]}
OLDEST = {"id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}}


def call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


STREAMS = [
    pytest.param("/a2a", "1.0", call("SendStreamingMessage", {"message": SAID}), id="1.0"),
    pytest.param("/a2a/message:stream", "1.0", {"message": SAID}, id="1.0 over HTTP+JSON"),
    pytest.param("/a2a", "0.3", call("message/stream", {"message": OLDER}), id="0.3"),
    pytest.param("/a2a", "0.1", call("tasks/sendSubscribe", OLDEST), id="0.1"),
]


async def speaks_and_is_silent(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text("So far.")
    await asyncio.sleep(3600)


class Silent(AgentExecutor):
    """An executor that never emits an event."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await asyncio.sleep(3600)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Do nothing: the server cancels the waiting coroutine."""


async def comments(door: Any, path: str, version: str, body: dict[str, Any], *, after: str) -> None:
    """Read the stream until two comments follow the given event."""
    headers = {"A2A-Version": version}
    async with (
        within("the stream ends"),
        door.http() as http,
        http.stream("POST", path, json=body, headers=headers) as response,
    ):
        assert response.status_code == 200
        assert "no-cache" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no"
        lines = (line async for line in response.aiter_lines() if line)
        told = not after
        for _ in range(2):
            while not (line := await anext(lines)).startswith(":") or not told:
                told = told or after in line


@pytest.mark.parametrize(("path", "version", "body"), STREAMS)
async def test_keepalive_comments_are_sent_on_a_silent_stream(
    open_door: Open, path: str, version: str, body: Any
) -> None:
    door = await open_door(speaks_and_is_silent, keepalive_seconds=0.05)
    await comments(door, path, version, body, after="So far.")


@pytest.mark.parametrize(("path", "version", "body"), STREAMS)
async def test_keepalive_comments_are_sent_before_the_first_event(
    open_door: Open, path: str, version: str, body: Any
) -> None:
    door = await open_door(executor=Silent(), keepalive_seconds=0.05)
    await comments(door, path, version, body, after="")


def test_keepalive_interval_is_below_common_proxy_timeouts() -> None:
    assert KEEPALIVE_SECONDS <= 25
