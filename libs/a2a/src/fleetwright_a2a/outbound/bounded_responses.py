"""Limits the size of HTTP responses, so that an endless response cannot exhaust the memory.

Compressed responses are rejected, because their decompressed size is unknown in advance.
"""

import re
from collections.abc import AsyncIterator
from typing import Final

import httpx

_PLAIN: Final = "identity"
_EVENT_ENDS: Final = re.compile(rb"\n\n|\r\r|\r\n\r\n")


class TooLarge(httpx.ReadError):
    """The response exceeds the limit, or is compressed."""


class BoundedTransport(httpx.AsyncBaseTransport):
    """Wraps a transport and limits the size of its responses."""

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        document: int,
        stream: int,
        event: int | None = None,
        answered_event: int | None = None,
    ) -> None:
        """Set separate limits for responses to GET and to other methods.

        Args:
            document: The largest size of a response to GET, in bytes.
            stream: The largest size of any other response, in bytes.
            event: If set, an event stream from GET has no total limit, only this limit for each event.
            answered_event: The limit for each event of an event stream that answers another method.
        """
        self._answered_event = answered_event
        self._transport = transport
        self._document = document
        self._stream = stream
        self._event = event

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = _PLAIN
        response = await self._transport.handle_async_request(request)
        if response.headers.get("Content-Encoding", _PLAIN) != _PLAIN:
            await response.aclose()
            raise TooLarge("the response is compressed, although that was not requested")
        got = request.method == "GET"
        events = response.headers.get("Content-Type", "").startswith("text/event-stream")
        of_event = (self._event if got else self._answered_event) if events else None
        most = self._document if got else self._stream
        response.stream = _Bounded(response.stream, None if got and of_event else most, event=of_event)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _Bounded(httpx.AsyncByteStream):
    def __init__(
        self, stream: httpx.SyncByteStream | httpx.AsyncByteStream, most: int | None, *, event: int | None
    ) -> None:
        """Args: the limits in bytes for the whole response and for each event."""
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("the transport must return an asynchronous stream")
        self._whole = stream
        self._most = most
        self._event = event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, of_event, before = 0, 0, b""
        async for piece in self._whole:
            size += len(piece)
            of_event += len(piece)
            if self._most is not None and size > self._most:
                raise TooLarge("the response exceeds the limit")
            if self._event is not None:
                if of_event > self._event:
                    raise TooLarge("an event exceeds the limit")
                if ends := [end.end() for end in _EVENT_ENDS.finditer(before + piece)]:
                    of_event = len(before) + len(piece) - ends[-1]
                before = (before + piece)[-3:]
            yield piece

    async def aclose(self) -> None:
        await self._whole.aclose()
