"""Checks of a request's head that the parser of the HTTP server does not make (RFC 9110, RFC 9112). Pure.

A request that two servers understand differently can hide another one. The servers therefore refuse what a proxy in
front of them may have read in another way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Headers = Sequence[tuple[bytes, bytes]]
"""The headers of a request, with their names in lower case."""

_HOST: Final = re.compile(rb"(\[[0-9A-Za-z:.%]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(:[0-9]{0,5})?")
"""A host with an optional port. The spaces around it are already removed."""
_PATH: Final = re.compile(rb"/[^#]*+\Z")
_ABSOLUTE: Final = re.compile(rb"https?://([^/?@#\s]+)([/?][^#]*)?", re.IGNORECASE | re.DOTALL)
_VERSIONS: Final = frozenset({"1.0", "1.1"})


@dataclass(frozen=True, slots=True)
class HeadRefusal:
    """The answer to a request that the server does not read further."""

    status: int
    sentence: str


UNSUPPORTED_VERSION: Final = HeadRefusal(505, "Use HTTP/1.1 or HTTP/1.0.")
MALFORMED: Final = HeadRefusal(400, "The request is not valid HTTP/1.1.")
TARGET_TOO_LONG: Final = HeadRefusal(414, "The request target is too long: shorten the path and the query.")
HEAD_TOO_LARGE: Final = HeadRefusal(431, "The headers are too large: all of them together have at most 64 KiB.")
_NO_HOST: Final = HeadRefusal(400, "The Host header is missing: send exactly one.")
_MANY_HOSTS: Final = HeadRefusal(400, "There is more than one Host header: send exactly one.")
_BAD_HOST: Final = HeadRefusal(400, "The Host header is not a host with an optional port.")
_BAD_TARGET: Final = HeadRefusal(400, "The request target must be a path, such as /a2a.")
_NO_TUNNEL: Final = HeadRefusal(501, "The method CONNECT is not supported.")
_CODING: Final = HeadRefusal(501, "The only Transfer-Encoding that is supported is: chunked.")
_OLD_CHUNKS: Final = HeadRefusal(400, "HTTP/1.0 has no Transfer-Encoding: send a Content-Length, or use HTTP/1.1.")


def check_head(method: bytes, version: str, target: bytes, headers: Headers) -> HeadRefusal | None:
    """Return the refusal of a request whose head is complete, or None if the request may be served.

    Args:
        method: The method, such as `POST`.
        version: The version that the request line states, such as `1.1`.
        target: The request target (RFC 9112 §3.2).
        headers: The headers, without trailers and without white space around the values.
    """
    if version not in _VERSIONS:
        return UNSUPPORTED_VERSION
    if method == b"CONNECT":
        return _NO_TUNNEL
    if not _PATH.match(target) and not _is_other_target(method, target):
        return _BAD_TARGET
    hosts = 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
            if not _HOST.fullmatch(value):
                return _BAD_HOST
        elif name == b"transfer-encoding":
            if version == "1.0":
                return _OLD_CHUNKS
            if value.lower() != b"chunked":
                return _CODING
    if hosts > 1:
        return _MANY_HOSTS
    return None if hosts or version == "1.0" else _NO_HOST


def _is_other_target(method: bytes, target: bytes) -> bool:
    return method == b"OPTIONS" if target == b"*" else split_absolute(target) is not None


def split_absolute(target: bytes) -> tuple[bytes, bytes] | None:
    """Return the host and the path of a target in absolute form. The host replaces that of the header (§3.2.2).

    Return None for a target in another form, and for one with an invalid host.
    """
    found = _ABSOLUTE.fullmatch(target)
    if found is None or not _HOST.fullmatch(found[1]):
        return None
    path = found[2] or b"/"
    return found[1], path if path.startswith(b"/") else b"/" + path


def build_head_without_upgrade(method: bytes, version: str, target: bytes, headers: Headers) -> bytes:
    """Return the head of a request without its Upgrade header, which a server may ignore (RFC 9110 §7.8)."""
    lines = [b"%s %s HTTP/%s" % (method, target, version.encode("ascii"))]
    lines += [b"%s: %s" % (name, value) for name, value in headers if name != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])
