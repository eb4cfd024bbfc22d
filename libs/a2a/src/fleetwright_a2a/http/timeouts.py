"""Limits on HTTP/1.1 requests and on the reading of responses: a connection that exceeds a limit is closed.

The HTTP server underneath has no such limits. Without them, an incomplete header would hold a connection indefinitely.
Endless headers or trailers would fill the memory (RFC 9112 §7.1.2 lets a chunked body end with trailers), and a body
in tiny chunks would occupy a processor.
"""

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from fleetwright_a2a.http.request_head import HEAD_TOO_LARGE, TARGET_TOO_LONG, HeadRefusal
from fleetwright_a2a.http.strict_protocol import StrictProtocol

HEADER_SECONDS: Final = 9.0
REQUEST_SECONDS: Final = 9.5
"""Counted from the end of the headers. Longer than the limit for bodies in `edge.py`, which sends an error response."""
UNREAD_SECONDS: Final = 300.0
"""The time for which a caller may read nothing of a response."""
MAX_HEADER: Final = 64 * 1024
"""In bytes, for the request line and the headers. The same number bounds trailers and the framing between two pieces of
a body.
"""
MAX_UNREAD_BODY: Final = 1024 * 1024
"""The bytes of a body, with its framing, that are received after the response is complete."""
MAX_FRAMING: Final = 1024 * 1024
"""The bytes that a body may use for the framing of its chunks."""
_LINE_BYTES: Final = len(b": \r\n")


class TimeoutProtocol(StrictProtocol):
    """HTTP/1.1 with deadlines for headers, whole requests and unread responses, and sizes for all parts of a request
    that the application does not limit.
    """

    header_seconds = HEADER_SECONDS
    request_seconds = REQUEST_SECONDS
    unread_seconds = UNREAD_SECONDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._whole: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._received = 0
        """Bytes of this connection that were given to the parser. They include the slice that is being parsed."""
        self._before = 0
        """The bytes before this slice."""
        self._head_slice = (0, 0)
        """The value of `_received` before and after the slice in which the current head began."""
        self._body_start = 0
        """The value of `_received` after the slice in which the headers were complete."""
        self._content = 0
        """The bytes of the content of the current body."""
        self._excused = 0
        """The value of `_received` after the slice with the most recent piece of the content."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the parent
        super().connection_made(transport)
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
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._await_headers()
        self._head_slice = (self._before, self._received)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._headers_done()
        self._request_done()  # A head that is parsed again has a timer already.
        self._whole = self.loop.call_later(self.request_seconds, self._end_late_body)
        self._body_start = self._excused = self._received
        self._content = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # The limit for trailers then excludes the rest of this slice.
        self._excused = self._received
        self._content += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._request_done()
        super().on_message_complete()

    def _parse(self, data: bytes) -> None:
        self._before = self._received
        self._received += len(data)
        super()._parse(data)
        if self._is_refused:
            return
        if self._whole is not None:
            self._check_body()
        elif self._deadline is not None and self._received - self._head_slice[1] > MAX_HEADER:
            self._refuse(self._choose_size_refusal())

    def _check_body(self) -> None:
        """Close the connection if the rest of a request exceeds a limit."""
        size = self._received - self._body_start
        is_unread = self.cycle.response_complete and size > MAX_UNREAD_BODY
        if is_unread or size - self._content > MAX_FRAMING or self._received - self._excused > MAX_HEADER:
            self.transport.close()

    def _check_head(self) -> HeadRefusal | None:
        if self._received - self._head_slice[0] > MAX_HEADER:
            size = len(self.url) + sum(len(name) + len(value) + _LINE_BYTES for name, value in self.headers)
            if size > MAX_HEADER:
                return self._choose_size_refusal()
        return super()._check_head()

    def _choose_size_refusal(self) -> HeadRefusal:
        return TARGET_TOO_LONG if len(self.url) > MAX_HEADER else HEAD_TOO_LARGE

    def _refuse(self, refusal: HeadRefusal) -> None:
        self._headers_done()
        self._request_done()
        super()._refuse(refusal)

    def _await_headers(self) -> None:
        if self._deadline is None:
            self._head_slice = (self._before, self._received)
            self._deadline = self.loop.call_later(self.header_seconds, self._end_late_head)

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

    def _end_late_head(self) -> None:
        self._deadline = None
        if self._is_waiting():
            # The server itself does not read the rest yet.
            self._deadline = self.loop.call_later(self.header_seconds, self._end_late_head)
        elif self._is_answering():
            self._is_refused = True
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def _end_late_body(self) -> None:
        self._whole = None
        if self._is_waiting():
            self._whole = self.loop.call_later(self.request_seconds, self._end_late_body)
        else:
            self.transport.close()
