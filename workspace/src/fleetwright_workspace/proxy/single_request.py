"""Limits a connection for plain HTTP to one request and one response.

The head of the next request may name another host, so bytes after the first request must never reach the host of the
first one. Clients keep the connection to a proxy open for further requests, unless the response says otherwise.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol

_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\r\n]*)?\r\n")
_CRLF = 2
_REPLACED = (b"connection", b"keep-alive", b"proxy-connection")
_INTERIM = re.compile(rb"HTTP/1\.[01] 1[0-9][0-9][ \r]")


class Source(Protocol):
    async def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; an empty result at the end."""


class RequestBody:
    """The body of one request. After it, the client may only end the connection."""

    def __init__(self, reader: asyncio.StreamReader, length: int | None) -> None:
        """Args: `length` is the size of the body in bytes, or None if it arrives in chunks."""
        self._reader = reader
        self._left = length or 0
        """Bytes that still belong to the body, or to its current chunk."""
        self._has_chunks = length is None
        self._is_trailer = False

    async def read(self, size: int, /) -> bytes:
        """Return a piece of the body as the client sent it, with the lines between chunks.

        Raises:
            ConnectionError: The client sends another request, or a malformed chunk.
        """
        if self._left:
            data = await self._reader.read(min(size, self._left))
            self._left -= len(data)
            return data
        if self._has_chunks:
            return await self._line()
        data = await self._reader.read(size)
        while data and not data.strip(b"\r\n"):
            data = await self._reader.read(size)
        if data:
            raise ConnectionError("a second request on the connection")
        return b""

    async def _line(self) -> bytes:
        """Return the line before the data of a chunk, or a line of the trailer."""
        try:
            line = await self._reader.readuntil(b"\r\n")
        except asyncio.IncompleteReadError as error:
            return error.partial
        except asyncio.LimitOverrunError:
            raise ConnectionError("a line between two chunks is too long") from None
        if self._is_trailer:
            self._has_chunks = line != b"\r\n"
            return line
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise ConnectionError("a malformed chunk")
        length = int(found[1], 16)
        self._is_trailer = length == 0
        self._left = length + _CRLF if length else 0
        return line


class ClosingResponse:
    """A response whose head tells the client that the connection ends with it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._awaits_head = True

    async def read(self, size: int, /) -> bytes:
        """Return a piece of the response. A head is one piece. Bytes that are no head of HTTP/1 pass unchanged."""
        if not self._awaits_head:
            return await self._reader.read(size)
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            self._awaits_head = False
            return error.partial
        except asyncio.LimitOverrunError:
            self._awaits_head = False
            return await self._reader.read(size)
        self._awaits_head = _INTERIM.match(head) is not None
        return head if self._awaits_head else _closing(head)


def _closing(head: bytes) -> bytes:
    if not head.startswith(b"HTTP/1."):
        return head
    lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in _REPLACED]
    return b"\r\n".join([*kept, b"Connection: close", b"", b""])
