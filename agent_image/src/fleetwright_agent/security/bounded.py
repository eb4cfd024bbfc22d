"""Responses that have an end: whoever answers without one is cut off, before it fills the memory.

Refuses: compressed answers, for what a few bytes become is known too late.
"""

import re
from collections.abc import AsyncIterator
from typing import Final

import httpx

_PLAIN: Final = "identity"
_EVENT_ENDS: Final = re.compile(rb"\n\n|\r\r|\r\n\r\n")


class TooLarge(httpx.ReadError):
    """The answer is longer than is read."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Another transport whose answers are read so far and no further."""

    def __init__(
        self, transport: httpx.AsyncBaseTransport, *, document: int, stream: int, event: int | None = None
    ) -> None:
        """Args: `document` and `stream`, the most bytes of what is got and of what a call is answered with.

        With `event`, events that are got may go on without end, and each of them has at most so many bytes.
        """
        self._transport = transport
        self._document = document
        self._stream = stream
        self._event = event

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _PLAIN
        response = await self._transport.handle_async_request(request)
        if response.headers.get("Content-Encoding", _PLAIN) != _PLAIN:
            await response.aclose()
            raise TooLarge("it is compressed, and was not asked to be")
        got = request.method == "GET"
        endless = got and response.headers.get("Content-Type", "").startswith("text/event-stream")
        if endless and self._event is not None:
            response.stream = _Bounded(response.stream, self._event, each_event=True)
        else:
            response.stream = _Bounded(response.stream, self._document if got else self._stream)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(
        self, stream: httpx.SyncByteStream | httpx.AsyncByteStream, most: int, *, each_event: bool = False
    ) -> None:
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("an asynchronous transport gives asynchronous streams")
        self._whole = stream
        self._most = most
        self._each_event = each_event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, before = 0, b""
        async for piece in self._whole:
            size += len(piece)
            if size > self._most:
                raise TooLarge("it is longer than is read")
            if self._each_event and (ends := [end.end() for end in _EVENT_ENDS.finditer(before + piece)]):
                size = len(before) + len(piece) - ends[-1]
            before = (before + piece)[-3:]
            yield piece

    async def aclose(self) -> None:
        await self._whole.aclose()
