"""The HTTP protocol of the servers over real connections: its limits, its deadlines, and the order of its answers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.http_server import serve_config
from tests.support.waiting import await_until, within

from fleetwright_a2a.http.server_config import http_config
from fleetwright_a2a.http.strict_protocol import LINGER_BYTES, SLICE
from fleetwright_a2a.http.timeouts import MAX_UNREAD_BODY, TimeoutProtocol

pytestmark = pytest.mark.process

Connected = tuple[set[TimeoutProtocol], asyncio.StreamReader, asyncio.StreamWriter]
PIECE = b"x" * 64 * 1024
PIECES = 500


async def app(scope, receive, send):
    """Send 31 MiB for the path `/much`, and two bytes for every other path."""
    pieces = [PIECE] * PIECES if scope["path"] == "/much" else [b"ok"]
    length = str(sum(map(len, pieces))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def connected(protocol=TimeoutProtocol, application=app) -> AsyncIterator[Connected]:
    """Yield the server's connections, and the streams of one client."""
    async with serve_config(http_config(application, drain_seconds=1, protocol=protocol)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        try:
            yield server.server_state.connections, reader, writer
        finally:
            writer.transport.abort()


async def test_upgrade_requests_leave_no_connection():
    async with connected() as (connections, reader, writer):
        writer.write(
            b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        async with within("the status line arrives"):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
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


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Gate:
    """An application that answers each request when the test opens the gate, and counts the waiting ones."""

    def __init__(self):
        self.opened = asyncio.Event()
        self.begun = 0

    async def __call__(self, scope, receive, send):
        self.begun += 1
        await self.opened.wait()
        await app(scope, receive, send)


async def test_pipelined_requests_wait_outside_of_the_parser():
    """One read can hold ten thousand requests. Only those of one slice become objects before the first is answered."""
    gate, count = Gate(), 20_000
    async with connected(application=gate) as (connections, reader, writer):
        writer.write(GET * count)
        await await_until(lambda: gate.begun, "the first request begins")
        (protocol,) = connections
        assert len(protocol.pipeline) <= SLICE / len(GET)
        gate.opened.set()
        async with within("all requests are answered"):
            for _ in range(count):
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
                await reader.readexactly(2)


class Hasty(TimeoutProtocol):
    header_seconds = request_seconds = 0.05


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"GET / HT", id="half a head"),
        pytest.param(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", id="half a body"),
        pytest.param(GET * 5000 + b"GET / HT", id="more requests than one slice holds, and half a head"),
    ],
)
async def test_late_request_does_not_cut_the_answers_before_it(rest):
    gate = Gate()
    async with connected(Hasty, gate) as (connections, reader, writer):
        writer.write(GET + rest)
        await await_until(lambda: gate.begun, "the first request begins")
        await asyncio.sleep(2 * Hasty.header_seconds)
        gate.opened.set()
        async with within("the server closes the connection"):
            answers = (await reader.read()).split(b"HTTP/1.1 200 OK")[1:]
        assert len(answers) >= 1 + rest.count(GET)
        assert all(answer.endswith(b"ok") for answer in answers)
        await await_until(lambda: not connections, "the server forgets the connection")


async def test_refusal_comes_after_the_answers_before_it():
    gate = Gate()
    async with connected(application=gate) as (connections, reader, writer):
        writer.write(GET + GET + b"nonsense\r\n\r\n")
        await await_until(lambda: gate.begun, "the first request begins")
        gate.opened.set()
        async with within("the server ends the connection"):
            statuses = [line.split()[1] for line in (await reader.read()).splitlines() if b"HTTP/1.1 " in line]
        assert (await reader.read(), len(statuses)) == (b"", 3)
        writer.close()
        await await_until(lambda: not connections, "the server forgets the connection")


async def test_refused_caller_that_does_not_stop_loses_its_connection():
    async with connected() as (connections, _, writer):
        writer.write(b"nonsense\r\n\r\n" + bytes(LINGER_BYTES))
        await await_until(lambda: bool(connections), "the server has the connection")
        with pytest.raises(ConnectionError):  # noqa: PT012 - the server closes at any time
            while True:
                writer.write(bytes(65536))
                await writer.drain()
        await await_until(lambda: not connections, "the server forgets the connection")


async def send_until_closed(writer, piece):
    """Return the number of bytes that could be sent before the server closed the connection."""
    sent = 0
    try:
        while sent < 64 * MAX_UNREAD_BODY:
            writer.write(piece)
            sent += len(piece)
            await writer.drain()
            await asyncio.sleep(0)
    except ConnectionError:
        return sent
    raise AssertionError("the server reads without a limit")


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("head", "piece", "is_answered"),
    [
        pytest.param(b"Transfer-Encoding: chunked", b"1\r\nx\r\n" * 1000, True, id="chunks of one byte"),
        pytest.param(b"Transfer-Encoding: chunked", b"1;a=b\r\nx\r\n" * 1000, True, id="chunks with extensions"),
        pytest.param(b"Transfer-Encoding: chunked", b"1000\r\n" + bytes(4096) + b"\r\n", True, id="large chunks"),
        pytest.param(b"Content-Length: 1000000000", bytes(4096), True, id="a length"),
        pytest.param(b"Transfer-Encoding: chunked", b"1\r\nx\r\n" * 1000, False, id="a body that is not refused"),
    ],
)
async def test_body_that_is_not_wanted_is_read_up_to_a_limit(head, piece, is_answered):
    async def read_all(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    async with connected(application=app if is_answered else read_all) as (connections, reader, writer):
        writer.write(HEAD + head + b"\r\n\r\n")
        if is_answered:
            async with within("the answer arrives"):
                await reader.readuntil(b"ok")
        (protocol,) = connections
        async with within("the server closes the connection"):
            await send_until_closed(writer, piece)
        assert MAX_UNREAD_BODY < protocol._received - protocol._body_start < 2 * MAX_UNREAD_BODY
        await await_until(lambda: not connections, "the server forgets the connection")
