"""Responses that have an end: whoever answers without one is cut off, before it fills the memory.

Refuses: compressed answers, for what a few bytes become is known too late.
"""

from collections.abc import AsyncIterator
from typing import Final

import httpx

_PLAIN: Final = "identity"


class TooLarge(httpx.ReadError):
    """The answer is longer than is read."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Another transport whose answers are read so far and no further."""

    def __init__(self, transport: httpx.AsyncBaseTransport, *, document: int, stream: int) -> None:
        """Args: `document` and `stream`, the most bytes of what is got and of what a call is answered with."""
        self._transport = transport
        self._document = document
        self._stream = stream

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _PLAIN
        response = await self._transport.handle_async_request(request)
        if response.headers.get("Content-Encoding", _PLAIN) != _PLAIN:
            await response.aclose()
            raise TooLarge("it is compressed, and was not asked to be")
        most = self._document if request.method == "GET" else self._stream
        response.stream = _Bounded(response.stream, most)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.SyncByteStream | httpx.AsyncByteStream, most: int) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("an asynchronous transport gives asynchronous streams")
        self._whole = stream
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._whole:
            self._left -= len(piece)
            if self._left < 0:
                raise TooLarge("it is longer than is read")
            yield piece

    async def aclose(self) -> None:
        await self._whole.aclose()
