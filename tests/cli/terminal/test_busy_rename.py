"""Renames of a conversation whose agent is busy."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.support.cli.agent_events import CARD, status_update

from fleetwright_cli.terminal.session.conversations import rename
from fleetwright_cli.terminal.transport.agent_client import AgentClient
from fleetwright_cli.terminal.transport.endpoint import AgentTarget, FixedEndpoint
from fleetwright_cli.terminal.transport.errors import RequestError


class BusyStream(httpx.AsyncByteStream):
    """Sends events. Then the deadline passes, and the stream stays open."""

    def __init__(self, events: list[Any], deadline: asyncio.Timeout) -> None:
        self._events = events
        self._deadline = deadline

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self._events:
            yield f"data: {json.dumps({'result': event})}\n\n".encode()
        self._deadline.reschedule(asyncio.get_running_loop().time())
        await asyncio.Event().wait()


class BusyAgent(httpx.AsyncBaseTransport):
    def __init__(self, events: list[Any], deadline: asyncio.Timeout) -> None:
        self._stream = BusyStream(events, deadline)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        return httpx.Response(200, stream=self._stream, headers={"Content-Type": "text/event-stream"})


@pytest.mark.parametrize(
    ("events", "says"),
    [
        pytest.param(
            [], "the agent has not answered in time; /sessions shows whether it stores the title", id="silent"
        ),
        pytest.param(
            [status_update("SUBMITTED")],
            "the agent is busy with this conversation; it stores the title when the running task has ended",
            id="accepted",
        ),
    ],
)
async def test_rename_says_what_becomes_of_the_title(events: list[Any], says: str) -> None:
    deadline = asyncio.Timeout(None)
    endpoint = FixedEndpoint(AgentTarget("http://x", "secret"), "desk")
    client = AgentClient(endpoint, transport=BusyAgent(events, deadline))
    with pytest.raises(RequestError) as raised:
        await rename(client, "c", "Shop", deadline=deadline)
    await client.close()
    assert str(raised.value) == says
