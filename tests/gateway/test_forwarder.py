"""The forwarder, between an agent whose bytes a test writes and a caller that a test plays."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from starlette.types import Message
from tests.support.gateway.raw_agent import serving_agent, stay_connected
from tests.support.gateway.served_gateway import CARD
from tests.support.waiting import within

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.proxy.forwarder import Forwarder, OutboundRequest
from fleetwright_gateway.proxy.translation.translator import Translator

pytestmark = pytest.mark.process


@pytest.fixture
async def forwarder(process_ring: None) -> AsyncIterator[Forwarder]:
    made = Forwarder(connect_seconds=5)
    yield made
    await made.aclose()


async def test_forwarder_passes_a_type_that_is_not_utf8(forwarder):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/\xff\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async with serving_agent(answer) as request, within("the agent's answer reaches the caller"):
        assert await forwarder.forward(request, stay_connected, send) == 200
    assert (b"content-type", b"text/\xff") in sent[0]["headers"]
    assert sent[1]["body"] == b"ok"


OFFERED = 48 * 1024 * 1024
"""The bytes that the agent would send."""
BUFFERED = 16 * 1024 * 1024
"""A bound on the bytes that the sockets of both processes and the gateway hold. Most of it is the sockets' share."""


class EventWriter:
    """An agent that sends events until the connection accepts no more of them."""

    def __init__(self, head: bytes, event: bytes) -> None:
        self._head = head
        self._event = event * (64 * 1024 // len(event))
        self.written = 0
        self.ended = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + self._head)
        try:
            async with asyncio.timeout(None) as limit:
                while self.written < OFFERED:
                    limit.reschedule(asyncio.get_running_loop().time() + 1.0)
                    writer.write(self._event)
                    await writer.drain()
                    self.written += len(self._event)
        except (TimeoutError, ConnectionError):
            pass
        self.ended.set()
        writer.transport.abort()


class SlowCaller:
    """A caller that reads the first piece of the body only."""

    def __init__(self) -> None:
        self.pieces = 0

    async def __call__(self, message: Message) -> None:
        self.pieces += message["type"] == "http.response.body"
        if self.pieces > 1:
            await asyncio.Event().wait()


async def test_forwarder_reads_no_further_than_a_slow_caller(forwarder):
    writing, caller = EventWriter(b"", b": keep-alive\n\n"), SlowCaller()
    async with serving_agent(writing) as request, within("the agent can write no more"):
        passing = asyncio.create_task(forwarder.forward(request, stay_connected, caller))
        await writing.ended.wait()
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
    assert caller.pieces == 2
    assert writing.written < BUFFERED


async def test_translator_reads_no_further_than_a_slow_caller(forwarder):
    task = {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}
    update = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}, "metadata": {"x": "x" * 8000}}
    results = [{"jsonrpc": "2.0", "id": 1, "result": each} for each in ({"task": task}, {"statusUpdate": update})]
    head, event = (b"data: %b\n\n" % json.dumps(each).encode() for each in results)
    writing, caller = EventWriter(head, event), SlowCaller()
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "Hi"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
    scope = {"type": "http", "method": "POST", "path": "/a2a", "query_string": b"", "headers": []}
    translator = Translator(forwarder, clock=Clock(), on_cut=lambda: None)
    async with serving_agent(writing) as request, within("the agent can write no more"):
        asked = replace(request, body=json.dumps(call).encode())
        about = {"caller": "user:ada", "agent": "uid", "card": CARD, "extra": ()}
        passing = asyncio.create_task(translator.forward(asked, scope, stay_connected, caller, **about))
        await writing.ended.wait()
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)
    assert caller.pieces == 2
    assert writing.written < BUFFERED


@pytest.mark.parametrize("method", ["message/send", "message/stream"])
async def test_translator_passes_on_why_there_is_no_delegation(forwarder, method):
    """The proxy answers with the status and `Retry-After` of the refusal. The agent receives nothing."""

    def refuse(_: str) -> list[tuple[str, str]]:
        raise Refused(503, "The gateway cannot sign tokens.", {"Retry-After": "5"})

    async def send(message: Message) -> None:
        raise AssertionError(message)

    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "Hi"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
    request = OutboundRequest(
        method="POST", url="http://127.0.0.1:9/a2a", headers=(), body=json.dumps(call).encode(), idle_seconds=30,
        delegate=refuse,
    )  # fmt: skip
    scope = {"type": "http", "method": "POST", "path": "/a2a", "query_string": b"", "headers": []}
    translator = Translator(forwarder, clock=Clock(), on_cut=lambda: None)
    with pytest.raises(Refused, match="cannot sign") as refused:
        await translator.forward(
            request, scope, stay_connected, send, caller="user:ada", agent="uid", card=CARD, extra=()
        )
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "5"})
