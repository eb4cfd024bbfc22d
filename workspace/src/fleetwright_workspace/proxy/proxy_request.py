"""Reads the head of a request to the proxy: CONNECT, or a plain HTTP request with a whole URL. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_METHOD = re.compile(r"[A-Z][A-Z-]{0,31}")
_AUTHORITY = re.compile(r"(?P<host>[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:(?P<port>[0-9]{1,5}))?")
_TARGET = re.compile(r"[!-~]+")
_FIELD_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OF_THIS_CONNECTION = {
    "connection", "host", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
    "upgrade",
}  # fmt: skip
_LENGTH = re.compile(r"[0-9]{1,15}")
_MOST_PORT = 65535
REASONS = {
    200: "OK", 400: "Bad Request", 403: "Not allowed by spec.workspace.network.egress", 405: "Method Not Allowed",
    408: "Request Timeout", 431: "Request Header Fields Too Large", 502: "Bad Gateway", 503: "Too Many Connections",
    504: "Gateway Timeout",
}  # fmt: skip


class ProxyRequestError(Exception):
    """The request gets this response, and its connection ends."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ProxyRequest(NamedTuple):
    """A request to a host."""

    host: str
    port: int
    forwarded: bytes = b""
    """The head that the host receives; empty for CONNECT."""
    length: int | None = 0
    """The size of the body in bytes; None if it arrives in chunks."""


def parse_request(head: bytes) -> ProxyRequest | None:
    """Return the request; None for the health check `GET /healthz`.

    Args:
        head: All bytes up to and including the empty line.

    Raises:
        ProxyRequestError: The request is malformed, or not one for a proxy.
    """
    try:
        first, *lines = head.decode("ascii").removesuffix("\r\n\r\n").split("\r\n")
    except UnicodeDecodeError:
        raise ProxyRequestError(400, "the head of the request is not ASCII") from None
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not _METHOD.fullmatch(words[0]):
        raise ProxyRequestError(400, "the first line is not an HTTP/1.1 request")
    method, target, _ = words
    if not _TARGET.fullmatch(target):
        raise ProxyRequestError(400, "the target of the request contains a control character")
    fields = [_field(line) for line in lines]
    if method == "CONNECT":
        host, port = _authority(target, default=None)
        return ProxyRequest(host, port)
    if method == "TRACE":
        raise ProxyRequestError(405, "TRACE is not supported")
    if method == "GET" and target == "/healthz":
        return None
    scheme, separator, rest = target.partition("://")
    if not separator or scheme.lower() != "http":
        raise ProxyRequestError(400, "this is a proxy: send CONNECT HOST:PORT, or a request with a whole http:// URL")
    end = next((i for i, sign in enumerate(rest) if sign in "/?#"), len(rest))
    host, port = _authority(rest[:end], default=80)
    path = rest[end:].partition("#")[0]
    return ProxyRequest(host, port, _forwarded(method, path, rest[:end], fields), _length(fields))


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _FIELD_NAME.fullmatch(name) or not value.replace("\t", " ").isprintable():
        raise ProxyRequestError(400, "a header line is malformed")
    return name, value.strip()


def _authority(text: str, *, default: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = default if found is None or found["port"] is None else int(found["port"])
    if found is None or port is None or not 0 < port <= _MOST_PORT:
        raise ProxyRequestError(400, "the request must name HOST:PORT, without a user or password")
    return found["host"].strip("[]").lower().rstrip("."), port


def _length(fields: list[tuple[str, str]]) -> int | None:
    found = [(name.lower(), value) for name, value in fields if name.lower() in ("content-length", "transfer-encoding")]
    if len(found) > 1:
        raise ProxyRequestError(400, "the request states the length of its body twice")
    if not found:
        return 0
    name, value = found[0]
    if name == "transfer-encoding" and value.lower() == "chunked":
        return None
    if name == "content-length" and _LENGTH.fullmatch(value):
        return int(value)
    raise ProxyRequestError(400, f"{name} of the request is not supported")


def _forwarded(method: str, path: str, authority: str, fields: list[tuple[str, str]]) -> bytes:
    """Return the head for the host. `Connection: close` ends the connection after one response."""
    dropped = _OF_THIS_CONNECTION | {
        word.strip().lower() for name, value in fields if name.lower() == "connection" for word in value.split(",")
    }
    # The framing of the body is not the client's to remove.
    dropped -= {"content-length", "transfer-encoding"}
    kept = [f"{name}: {value}" for name, value in fields if name.lower() not in dropped]
    origin = path if path.startswith("/") else f"/{path}"
    lines = [f"{method} {origin} HTTP/1.1", f"Host: {authority}", *kept, "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("ascii")
