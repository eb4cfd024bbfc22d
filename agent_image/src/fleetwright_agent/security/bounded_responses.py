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
        self,
        transport: httpx.AsyncBaseTransport,
        *,
        document: int,
        stream: int,
        event: int | None = None,
        answered_event: int | None = None,
    ) -> None:
        """Args: `document` and `stream`, the most bytes of what is got and of what a call is answered with.

        With `event`, events that are got may go on without end, and each of them has at most so many bytes. Of the
        events that a call is answered with each has at most `answered_event`.
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
            raise TooLarge("it is compressed, and was not asked to be")
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
        """Args: the most bytes in all, and of each event."""
        if not isinstance(stream, httpx.AsyncByteStream):
            raise TypeError("an asynchronous transport gives asynchronous streams")
        self._whole = stream
        self._most = most
        self._event = event

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, of_event, before = 0, 0, b""
        async for piece in self._whole:
            size += len(piece)
            of_event += len(piece)
            if self._most is not None and size > self._most:
                raise TooLarge("it is longer than is read")
            if self._event is not None:
                if of_event > self._event:
                    raise TooLarge("an event is longer than is read")
                if ends := [end.end() for end in _EVENT_ENDS.finditer(before + piece)]:
                    of_event = len(before) + len(piece) - ends[-1]
                before = (before + piece)[-3:]
            yield piece

    async def aclose(self) -> None:
        await self._whole.aclose()
