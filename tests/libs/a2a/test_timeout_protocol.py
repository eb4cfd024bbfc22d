"""The HTTP protocol of the servers over real connections: upgrade requests, slow readers and `Connection: close`."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from tests.support.http_server import serve_config
from tests.support.waiting import await_until, within

from fleetwright_a2a.http.timeouts import TimeoutProtocol

pytestmark = pytest.mark.process

Connected = tuple[set[TimeoutProtocol], asyncio.StreamReader, asyncio.StreamWriter]
PIECE = b"x" * 64 * 1024
PIECES = 500


async def app(scope, receive, send):
    """Send 31 MiB for the path `/much`, and two bytes for every other path."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close"})
        return
    pieces = [PIECE] * PIECES if scope["path"] == "/much" else [b"ok"]
    length = str(sum(map(len, pieces))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected(ws="none", protocol=TimeoutProtocol) -> AsyncIterator[Connected]:
    """Yield the server's connections, and the streams of one client."""
    config = uvicorn.Config(app, http=protocol, ws=ws, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    async with serve_config(config) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            yield server.server_state.connections, reader, writer
        finally:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("ws", "status"),
    [
        pytest.param("none", b"HTTP/1.1 200", id="without WebSockets, as in every server"),
        pytest.param("auto", b"HTTP/1.1 403", id="with WebSockets"),
    ],
)
async def test_upgrade_requests_leave_no_connection(ws, status):
    async with connected(ws) as (connections, reader, writer):
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        async with within("the status line arrives"):
            assert (await reader.readline()).startswith(status)
        writer.close()
        await await_until(lambda: not connections, "the server forgets the connection")


async def test_a_slow_reader_pauses_the_writer():
    async with connected() as (connections, reader, writer):
        writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await await_until(
            lambda: any(each.flow is not None and each.flow.write_paused for each in connections),
            "the server pauses its writes",
        )
        (protocol,) = connections
        assert protocol.transport.get_write_buffer_size() < 4 * len(PIECE)
        async with within("the whole answer arrives"):
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(PIECES * len(PIECE))) == PIECES * len(PIECE)


class Impatient(TimeoutProtocol):
    unread_seconds = 0.05


async def test_caller_that_reads_nothing_loses_its_connection():
    """The server keeps nothing of the response, and the caller cannot take the part it has for a complete response."""
    async with connected(protocol=Impatient) as (connections, reader, writer):
        writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await await_until(lambda: bool(connections), "the server has the connection")
        await await_until(lambda: not connections, "the server forgets the connection")
        async with within("the connection breaks"):
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await reader.readexactly(PIECES * len(PIECE))


async def test_caller_that_reads_slowly_keeps_its_connection():
    """Only a caller that has read nothing since the last check loses its connection."""
    async with connected() as (connections, _, writer):
        writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        await await_until(
            lambda: any(each._unread is not None for each in connections), "the server looks for unread bytes"
        )
        (protocol,) = connections
        unread = protocol.transport.get_write_buffer_size()
        protocol._unread.cancel()
        protocol._abort_unread(unread + 1)
        assert protocol._unread.when() > protocol.loop.time()
        protocol._unread.cancel()
        protocol._abort_unread(unread)
        await await_until(lambda: not connections, "the server forgets the connection")


async def test_caller_that_pauses_for_less_keeps_its_connection():
    async with connected() as (connections, reader, writer):
        for _ in range(2):
            writer.write(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
            await await_until(
                lambda: any(each.flow.write_paused for each in connections), "the server pauses its writes"
            )
            async with within("the whole answer arrives"):
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(PIECES * len(PIECE))
            (protocol,) = connections
            await await_until(lambda: protocol._unread is None, "the caller has read everything")  # noqa: B023 - it is awaited at once


async def test_connection_close_ends_after_the_whole_body():
    async with connected() as (connections, reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        async with within("the server closes the connection"):
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert (b"connection: close" in head.lower(), body) == (True, b"ok")
        await await_until(lambda: not connections, "the server forgets the connection")
