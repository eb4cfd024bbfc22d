"""Abuses of an agent's server by anonymous and known callers: the duration of each connection, and its memory."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

from tests.bench.echo.served import TOKEN, Served
from tests.bench.table import Row

SECONDS: Final = 10.0
MEBIBYTES: Final = 20.0
_PATIENCE: Final = 60
"""Seconds after which an abuse gives up if the server does not end it."""


async def suffered(server: Served, words: str, abuse: Callable[[Served], Awaitable[None]]) -> list[Row]:
    before = server.pss_kib()
    highest = [before]
    watching = asyncio.create_task(_watch(server, highest))
    began = time.perf_counter()
    try:
        await abuse(server)
    finally:
        watching.cancel()
    seconds = time.perf_counter() - began
    return [
        Row(f"{words}: refused after", seconds, "s", SECONDS),
        Row(f"{words}: extra memory", (max(highest) - before) / 1024, "MiB", MEBIBYTES),
    ]


async def _watch(server: Served, highest: list[int]) -> None:
    while True:
        highest.append(max(highest.pop(), server.pss_kib()))
        await asyncio.sleep(0.02)


def _head(token: str, length: int) -> bytes:
    known = f"Authorization: Bearer {token}\r\n" if token else ""
    return (
        "POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
        f"{known}Content-Length: {length}\r\n\r\n"
    ).encode()


async def _at_once(server: Served, *, token: str, pieces: list[bytes], said: bytes, may_reset: bool = False) -> None:
    """Send everything at once and wait for the answer and, if the sender continues, for the end of the connection.

    Args:
        may_reset: True if the server may close the connection while the body is sent. The client's kernel can then
            discard the answer before it is read (RFC 9112, section 9.6).
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answered = asyncio.create_task(reader.readuntil(b"}"))
    writer.write(_head(token, sum(map(len, pieces))))
    with suppress(ConnectionError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
    try:
        answer = await answered
    except ConnectionError:
        if not may_reset:
            raise
        answer = said
    if said not in answer:
        raise RuntimeError(f"not refused: {answer[:300]!r}")
    writer.close()


async def _byte_by_byte(server: Served, *, head: bytes, said: bytes) -> None:
    """Send one byte a second until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    ended = asyncio.create_task(reader.read())
    with suppress(ConnectionError):
        writer.write(head)
        for _ in range(_PATIENCE):
            if (await asyncio.wait({ended}, timeout=1.0))[0]:
                break
            writer.write(b"x")
    ended.cancel() if not ended.done() else None
    answer = b"" if ended.cancelled() or ended.exception() else ended.result()
    if said not in answer:
        raise RuntimeError(f"not refused: {answer[:300]!r}")
    writer.close()


async def _trailers(server: Served, *, port: Callable[[Served], int], begin: bytes, piece: bytes) -> None:
    """Send trailers until the server closes the connection, a gigabyte at most."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port(server))
    sent = 0
    with suppress(ConnectionError):
        writer.write(begin)
        while sent < _GIGABYTE and not reader.at_eof():
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    writer.close()
    if sent >= _GIGABYTE:
        raise RuntimeError("not refused: the server took a gigabyte of trailers")


def _a2a(server: Served) -> int:
    return server.port


def _ops(server: Served) -> int:
    return server.health


_GIGABYTE: Final = 1 << 30
_CARD: Final = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
_HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
_MANY: Final = (b"X-Many: " + b"y" * 1000 + b"\r\n") * 64
_GIANT: Final = b"y" * 65_536
_LARGE: Final = [b" " * 1_000_000] * 100
_DEEP: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"a":' + b"[" * 250_000 + b"]" * 250_000 + b"}}"
)
_VALUES: Final = b'{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"a":[' + b"1," * 499_000 + b"1]}}"
_PARTS: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","taskId":"x",'
    b'"role":"ROLE_USER","parts":[' + b'{"data":1},' * 2_000 + b'{"text":"a"},' * 2_000 + b'{"text":"a"}]}}}'
)
ABUSES: Final[Mapping[str, Callable[[Served], Awaitable[None]]]] = {
    "100 MB body": partial(_at_once, token=TOKEN, pieces=_LARGE, said=b"413"),
    "100 MB body of a stranger": partial(_at_once, token="", pieces=_LARGE, said=b"401", may_reset=True),
    "deep JSON": partial(_at_once, token=TOKEN, pieces=[_DEEP], said=b"-32700"),
    "half a million values": partial(_at_once, token=TOKEN, pieces=[_VALUES], said=b"-32700"),
    "thousands of parts": partial(_at_once, token=TOKEN, pieces=[_PARTS], said=b"-32001"),
    "trailers of a stranger": partial(_trailers, port=_a2a, begin=_CARD, piece=_MANY),
    "one giant trailer": partial(_trailers, port=_a2a, begin=_CARD + b"X-Giant: ", piece=_GIANT),
    "trailers on the ops port": partial(_trailers, port=_ops, begin=_HEALTH, piece=_MANY),
    "one giant trailer on the ops port": partial(_trailers, port=_ops, begin=_HEALTH + b"X-Giant: ", piece=_GIANT),
    "1-byte/s headers": partial(_byte_by_byte, head=b"POST /a2a HTTP/1.1\r\nHost: x\r\nX-Slow: ", said=b""),
    "1-byte/s body": partial(_byte_by_byte, head=_head(TOKEN, 1_000_000), said=b"408"),
    "1-byte/s body of a stranger": partial(_byte_by_byte, head=_head("", 1_000_000), said=b"401"),
}
"""Strangers, not callers, send endless headers."""
