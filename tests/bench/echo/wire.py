"""A minimal client, so that the figures show the server: one connection, one request at a time."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from typing import Self

_numbers = itertools.count()
_REQUEST_LINE = "POST /a2a"
_LONGEST_LINE = 2**24


def message(text: str, *, method: str = "SendMessage", wait: bool = True) -> bytes:
    said = {"messageId": f"m-{next(_numbers)}", "role": "ROLE_USER", "parts": [{"text": text}]}
    params = {"message": said, "configuration": {"returnImmediately": not wait}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


class Wire:
    """One connection as a context manager."""

    def __init__(
        self, port: int, token: str, *, version: str = "A2A-Version: 1.0\r\n", request_line: str = _REQUEST_LINE
    ) -> None:
        """Args: `request_line` is verb and path of each request."""
        self._port = port
        self._request_line = request_line
        self._headers = (
            " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"{version}Authorization: Bearer {token}\r\nContent-Length: "
        ).encode()

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=_LONGEST_LINE)
        return self

    async def __aexit__(self, *about: object) -> None:
        self._writer.close()

    async def post(self, body: bytes) -> bytes:
        """Return the body of the answer.

        Raises:
            RuntimeError: if the answer is not a result.
        """
        head, answer = await self.exchange(body)
        if b"200 OK" not in head or b'"result"' not in answer:
            raise RuntimeError(f"{head!r} {answer[:300]!r}")
        return answer

    async def exchange(self, body: bytes, *, request_line: str = "") -> tuple[bytes, bytes]:
        """Return head and body of any answer; `request_line` is another verb and path."""
        self._send(body, request_line or self._request_line)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head.lower():
            return head, await self._chunks()
        return head, await self._reader.readexactly(_length(head))

    async def _chunks(self) -> bytes:
        whole = b""
        while size := int(await self._reader.readline(), 16):
            whole += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return whole

    async def stream(self, body: bytes) -> AsyncIterator[bytes]:
        """Return the events of a stream as they arrive."""
        self._send(body, self._request_line)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if b"text/event-stream" not in head:
            raise RuntimeError(f"no stream: {head!r}")
        while (line := await self._reader.readline()).strip() != b"0":
            if line.startswith(b"data:"):
                yield line[5:].strip()

    def _send(self, body: bytes, request_line: str) -> None:
        self._writer.write(request_line.encode() + self._headers + b"%d\r\n\r\n" % len(body) + body)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    raise RuntimeError(f"no length: {head!r}")


async def load(
    port: int, token: str, text: str, *, at_once: int, seconds: float, request_line: str = _REQUEST_LINE
) -> list[float]:
    """Send requests for that time, and return the duration of each."""
    took: list[float] = []
    end = time.perf_counter() + seconds

    async def one() -> None:
        async with Wire(port, token, request_line=request_line) as wire:
            while (began := time.perf_counter()) < end:
                await wire.post(message(text))
                took.append(time.perf_counter() - began)

    await asyncio.gather(*(one() for _ in range(at_once)))
    return took
