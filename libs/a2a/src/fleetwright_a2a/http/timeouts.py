"""Limits on HTTP/1.1 requests and on the reading of responses: a connection that exceeds a limit is closed.

The HTTP server underneath has no such limits. Without them, an incomplete header would hold a connection indefinitely.
Endless headers or trailers would fill the memory (RFC 9112 §7.1.2 lets a chunked body end with trailers).
"""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fleetwright_a2a.http.write_coalescing import CoalescingTransport

HEADER_SECONDS: Final = 9.0
REQUEST_SECONDS: Final = 9.5
"""Counted from the end of the headers. Longer than the limit for bodies in `edge.py`, which sends an error response."""
UNREAD_SECONDS: Final = 300.0
"""The time for which a caller may read nothing of a response."""
MAX_HEADER: Final = 64 * 1024
"""In bytes. The same number bounds trailers and the framing between two pieces of a body."""


class TimeoutProtocol(HttpToolsProtocol):
    """HTTP/1.1 with deadlines for headers, whole requests and unread responses, and a size for headers and trailers."""

    header_seconds = HEADER_SECONDS
    request_seconds = REQUEST_SECONDS
    unread_seconds = UNREAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._whole: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._size = 0
        self._received = 0
        """Bytes received on this connection that are not known to belong to the body of a request."""
        self._excused = 0
        """The value of `_received` when the parser most recently completed the headers or a piece of the body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the parent
        super().connection_made(CoalescingTransport(transport, self.loop))
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_done()
        self._request_done()
        self._read_again()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        self._await_reading()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._read_again()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # the parent's annotation omits the initial None
        if self._whole is None and (cycle is None or cycle.response_complete):
            # The server stops its keep-alive timer at any data, even if no request begins. Any data therefore starts
            # the deadline for headers; otherwise, the connection would have no deadline.
            self._await_headers()
        self._received += len(data)
        super().data_received(data)
        if self._whole is not None and self._received - self._excused > MAX_HEADER:
            self.transport.close()
        if self._deadline is not None:
            self._size += len(data)
            if self._size > MAX_HEADER:
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._headers_done()
        self._whole = self.loop.call_later(self.request_seconds, self._close_late)
        self._excused = self._received
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # The size limit for trailers then also excludes the bytes after this piece in the same read. These bytes are at
        # most a quarter of a megabyte.
        self._received -= len(body)
        self._excused = self._received
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._request_done()
        super().on_message_complete()

    def on_message_begin(self) -> None:
        self._await_headers()
        super().on_message_begin()

    def _await_headers(self) -> None:
        if self._deadline is None:
            self._size = 0
            self._deadline = self.loop.call_later(self.header_seconds, self._close_late)

    def _headers_done(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _request_done(self) -> None:
        if self._whole is not None:
            self._whole.cancel()
            self._whole = None

    def _await_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._unread = self.loop.call_later(self.unread_seconds, self._abort_unread, unread)

    def _abort_unread(self, before: int) -> None:
        """Abort the connection, unless the caller reads slowly. `before` is the size of the unread data in bytes."""
        if self.transport.get_write_buffer_size() < before:
            self._await_reading()
        else:
            # Closing would wait until the caller has read what is buffered.
            self.transport.abort()

    def _read_again(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _close_late(self) -> None:
        self._deadline = None
        self.transport.close()
