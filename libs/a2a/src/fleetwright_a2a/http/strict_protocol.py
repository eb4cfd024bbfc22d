"""HTTP/1.1 for a server: requests to upgrade are answered as plain ones, and malformed requests get an answer.

uvicorn's protocol does the rest. This one differs in four points. The parser skips the body of a request with an
Upgrade header, so such a head is parsed again without the header. Heads are checked more strictly. A refusal comes
after the answers to the requests before it, and the connection stays open until the caller can have read it. The number
of pipelined requests in memory is limited.
"""

import asyncio
from typing import Any, Final, cast

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from fleetwright_a2a.http.request_head import (
    MALFORMED,
    UNSUPPORTED_VERSION,
    HeadRefusal,
    build_head_without_upgrade,
    check_head,
    split_absolute,
)
from fleetwright_a2a.http.write_coalescing import CoalescingTransport

SLICE: Final = 16 * 1024
"""The bytes that are parsed at a time. The rest of a read waits while a request of the slice waits for its answer."""
LINGER_SECONDS: Final = 2.0
"""The time for a caller to read a refusal. If the server closed at once, it would reset the connection of a caller that
still sends.
"""
LINGER_BYTES: Final = 1024 * 1024
_VERSION_ERRORS: Final = frozenset({"Invalid HTTP version", "Pause on PRI/Upgrade"})
"""The parser's texts for versions that it does not know, and for the preface of HTTP/2."""


class _Refused(Exception):  # noqa: N818 - it ends the parsing and is not an error
    """The parser must not read further, because the request was refused."""


class _HeldFlow(FlowControl):
    """Flow control whose reading stays paused while received requests wait for their turn."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class StrictProtocol(HttpToolsProtocol):
    flow: _HeldFlow

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_upgrade = False
        """True after a head with a request to upgrade, whose body the parser skips, until the head is parsed again."""
        self._is_in_body = False
        self._refusal: bytes | None = None
        """The last response of the connection, until it is sent."""
        self._is_refused = False
        self._backlog = b""
        """Received bytes that are not parsed yet."""
        self._discarded = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the parent
        coalescing = CoalescingTransport(transport, self.loop)
        super().connection_made(coalescing)
        self.flow = _HeldFlow(coalescing)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._is_refused:
            self._discard(len(data))
        elif self._backlog:
            self._backlog += data
        else:
            self._parse_slices(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9110 §5.5 excludes white space around a value. The parser removes only that before it.
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        if refusal := self._check_head():
            self._refuse(refusal)
            raise _Refused
        if self.parser.should_upgrade():
            self._is_upgrade = True
            return
        if not self.url.startswith(b"/"):
            self._use_absolute_target()
        super().on_headers_complete()
        self._is_in_body = True
        # The application keeps the list with the headers. Trailers must not become headers (RFC 9110 §6.5.1).
        self.headers = []

    def on_message_complete(self) -> None:
        if not self._is_upgrade:
            self._is_in_body = False
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline or self.transport.is_closing():
            return
        backlog, self._backlog = self._backlog, b""
        if backlog:
            self._unset_keepalive_if_required()
            self._parse_slices(backlog)
        if self._is_waiting() or self._is_refused:
            if not self._is_answering():
                self._send_refusal()
            return
        self.flow.is_held = False
        self.flow.resume_reading()

    def _check_head(self) -> HeadRefusal | None:
        return check_head(self.parser.get_method(), self.parser.get_http_version(), self.url, self.headers)

    def _is_waiting(self) -> bool:
        """Return whether a received request waits for the answer to an earlier one."""
        return bool(self.pipeline or self._backlog)

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # the parent's annotation omits the initial None
        return cycle is not None and not cycle.response_complete

    def _parse_slices(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            self._parse(data[start : start + SLICE] if len(data) > SLICE else data)
            if self.transport.is_closing() or self._is_refused:
                return
            if self.pipeline:
                self._backlog = data[start + SLICE :]
                self.flow.is_held = True
                self.flow.pause_reading()
                return

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._restart_parser() + data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                if not self._is_refused:
                    self._refuse(UNSUPPORTED_VERSION if str(error) in _VERSION_ERRORS else MALFORMED)
                return
            else:
                return

    def _restart_parser(self) -> bytes:
        """Replace the parser, which would skip the body, and return the head of the request for the new one."""
        self._is_upgrade = False
        method, version = self.parser.get_method(), self.parser.get_http_version()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return build_head_without_upgrade(method, version, self.url, self.headers)

    def _use_absolute_target(self) -> None:
        if (found := split_absolute(self.url)) is not None:
            host, self.url = found
            self.headers[:] = [(b"host", host), *(each for each in self.headers if each[0] != b"host")]

    def _refuse(self, refusal: HeadRefusal) -> None:
        """Answer the request that is being parsed, after the answers to the requests before it, and read no further."""
        self._is_refused = True
        self._refusal = _build_response(refusal, has_body=not self._is_head_request())
        if self._is_in_body:
            self._drop_cycle()
        if self._is_answering():
            self.flow.is_held = True
            self.flow.pause_reading()
        else:
            self._send_refusal()

    def _is_head_request(self) -> bool:
        # Until the target of this request begins, the parser returns the method of the previous one.
        return bool(self.url) and self.parser.get_method() == b"HEAD"

    def _drop_cycle(self) -> None:
        """Take a request with a malformed body from the application. A response that has begun cannot be replaced."""
        if self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline[0] = (self.cycle, self._send_refusal_in_turn)
            return
        if self.cycle.response_complete:
            self._refusal = b""  # The caller has an answer already.
            return
        if self.cycle.response_started:
            self.transport.close()
            return
        self.cycle.disconnected = True
        self.cycle.response_complete = True
        self.cycle.message_event.set()

    async def _send_refusal_in_turn(self, *_: object) -> None:
        self.cycle.response_started = self.cycle.response_complete = True
        self.cycle.disconnected = True
        self._send_refusal()

    def _send_refusal(self) -> None:
        refusal, self._refusal = self._refusal, None
        if refusal is None or self.transport.is_closing():
            return
        if refusal:
            self.transport.write(refusal)
        self.transport.write_eof()
        self.flow.is_held = False
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _discard(self, size: int) -> None:
        self._discarded += size
        if self._discarded > LINGER_BYTES:
            self.transport.close()


def _build_response(refusal: HeadRefusal, *, has_body: bool) -> bytes:
    body = refusal.sentence.encode("ascii")
    head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return STATUS_LINE[refusal.status] + head + (body if has_body else b"")
