"""A server that relays bytes to another one, as a TLS terminator and as an HTTP proxy do."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_PORT = re.compile(rb"(?:CONNECT |[A-Z]+ http://)[^ /]+:([0-9]+)")
"""The port that a request to a proxy names, in the authority form or the absolute form (RFC 9112 §3.2)."""


@dataclass
class Relay:
    """A server in front of another one. It terminates TLS if it has a certificate, and serves as an HTTP proxy."""

    port: int = 0
    heard: bytearray = field(default_factory=bytearray)
    """All bytes that clients sent."""
    refusal: bytes = b""
    """The status and the phrase with which a proxy refuses every request."""


@asynccontextmanager
async def run_relay(target: int = 0, context: ssl.SSLContext | None = None) -> AsyncIterator[Relay]:
    """Yield a running relay on the loopback address.

    Args:
        target: The port to which requests are passed on. Those to a proxy name their own port.
        context: The TLS context of the relay itself.
    """
    seen = Relay()
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
        while data := await reader.read(65536):
            copy += data
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.heard.extend(head)
        if seen.refusal:
            writer.write(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % seen.refusal)
            return
        tunnel = head.startswith(b"CONNECT")
        named = _PORT.match(head)
        back, forth = await asyncio.open_connection("127.0.0.1", int(named[1]) if named else target)
        (writer if tunnel else forth).write(b"HTTP/1.1 200 OK\r\n\r\n" if tunnel else head)
        try:
            await asyncio.gather(pump(reader, forth, seen.heard), pump(back, writer, bytearray()))
        finally:
            forth.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # a handler always runs in a task
        try:
            await connect(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # the event loop drops closed connections with a delay
