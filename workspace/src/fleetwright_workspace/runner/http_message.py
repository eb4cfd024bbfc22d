"""Reads HTTP/1.1 requests from a socket and writes responses: only what the API needs, and everything bounded.

`http.server` would load the packages for mail, which costs 3 MB in a process that should need less than 20.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from typing import NamedTuple

HEAD_LIMIT = 16 * 1024
BODY_LIMIT = 16 * 1024 * 1024
COMMAND_LIMIT = 1024 * 1024
"""The largest body that begins a command. It stays in memory while the command runs."""
HEAD_SECONDS = 10.0
UNKNOWN_SECONDS = 5.0
"""The time in which a new connection has to send a head. An agent without processor time may need seconds for it."""
BODY_SECONDS = 60.0
IDLE_SECONDS = 75.0
WRITE_SECONDS = 30.0
_CHUNK = 1 << 16
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class RequestHead(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    keep_alive: bool

    @property
    def bearer(self) -> str:
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


class HttpError(Exception):
    """The bytes are not a request that this server takes. The connection ends after the response."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HttpConnection:
    """One connection of a client, with bytes that were received and not used yet."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.is_trusted = False
        """True once the client has sent a valid token."""
        self._received = bytearray()

    def read_head(self) -> RequestHead | None:
        """Return the next request's head; None if the client closed the connection or was idle for too long.

        Raises:
            HttpError: The head is malformed, too large, or does not arrive in time.
        """
        idle = IDLE_SECONDS if self.is_trusted else UNKNOWN_SECONDS
        deadline = time.monotonic() + (HEAD_SECONDS if self._received and self.is_trusted else idle)
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            if len(self._received) > HEAD_LIMIT:
                raise HttpError(431, f"the head of the request is larger than {HEAD_LIMIT} bytes")
            was_idle = not self._received
            data = self._receive(deadline)
            if not data:
                if was_idle or data is not None:
                    return None
                raise HttpError(408, "the head of the request did not arrive in time")
            self._received += data
            if was_idle and self.is_trusted:
                deadline = time.monotonic() + HEAD_SECONDS
        head = bytes(self._received[:end])
        del self._received[: end + 4]
        return _parse_head(head)

    def body_length(self, head: RequestHead, *, limit: int = BODY_LIMIT) -> int:
        """Return the length of the body.

        Raises:
            HttpError: It is too large, or the request does not state it.
        """
        if "transfer-encoding" in head.headers:
            raise HttpError(411, "send a Content-Length; chunked requests are not supported")
        text = head.headers.get("content-length", "0")
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            raise HttpError(400, "Content-Length is not a number")
        length = int(text)
        if length > limit:
            raise HttpError(413, f"the body is larger than {limit} bytes")
        return length

    def read_body(self, head: RequestHead, length: int) -> bytes:
        """Return the body.

        Raises:
            HttpError: It does not arrive in time.
        """
        if head.headers.get("expect", "").lower() == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        deadline = time.monotonic() + BODY_SECONDS
        while len(self._received) < length:
            data = self._receive(deadline)
            if not data:
                raise HttpError(408, "the body of the request did not arrive")
            self._received += data
        body = bytes(self._received[:length])
        del self._received[:length]
        return body

    def send_json(self, status: int, value: object, *, keep_alive: bool) -> None:
        body = json.dumps(value, ensure_ascii=False).encode(errors="replace")
        kind = "Content-Type: application/json; charset=utf-8"
        self.send(_head(status, f"{kind}\r\nContent-Length: {len(body)}", keep_alive=keep_alive) + body)

    def begin_stream(self, kind: str) -> None:
        """Begin a response of unknown length. The connection ends after it."""
        self.send(_head(200, f"Content-Type: {kind}\r\nTransfer-Encoding: chunked", keep_alive=False))

    def send_chunk(self, data: bytes) -> None:
        """Send one part of a stream. An empty part ends the stream."""
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def send(self, data: bytes) -> None:
        self.stream.settimeout(WRITE_SECONDS)
        self.stream.sendall(data)

    def _receive(self, deadline: float) -> bytes | None:
        """Return received bytes, nothing at the end of the stream, and None when the time is over."""
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        self.stream.settimeout(left)
        try:
            return self.stream.recv(_CHUNK)
        except socket.timeout:
            return None


def _parse_head(head: bytes) -> RequestHead:
    try:
        first, *lines = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise HttpError(400, "the head of the request is not ASCII") from None
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0"):
        raise HttpError(400, "the first line is not an HTTP/1.1 request")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        key = name.lower()
        if not colon or not name or name != name.strip():
            raise HttpError(400, "a header line is malformed")
        if key in headers and key in ("authorization", "content-length", "transfer-encoding"):
            raise HttpError(400, f"{name} is given twice")
        headers[key] = value.strip()
    keep_alive = words[2] == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return RequestHead(words[0], words[1].partition("?")[0], headers, keep_alive)


def _head(status: int, headers: str, *, keep_alive: bool) -> bytes:
    connection = "keep-alive" if keep_alive else "close"
    reason = _REASONS.get(status, "Status")
    return f"HTTP/1.1 {status} {reason}\r\n{headers}\r\nConnection: {connection}\r\n\r\n".encode()
