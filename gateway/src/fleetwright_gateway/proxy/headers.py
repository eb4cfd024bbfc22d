"""Which headers pass the proxy. Pure.

Towards the agent only known headers pass, so that no header can claim an identity. Towards the caller only headers pass
that describe the answer. Others would speak for the whole origin of the gateway, such as `Set-Cookie`,
`Clear-Site-Data` and `Access-Control-Allow-Origin`. The header `X-Timeout` is for the proxy itself.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

RawHeaders = Iterable[tuple[bytes, bytes]]

_TO_AGENT: Final = frozenset(
    {
        "a2a-extensions",
        "a2a-version",
        "accept",
        "accept-language",
        "baggage",
        "cache-control",
        "content-type",
        "if-modified-since",
        "if-none-match",
        "last-event-id",
        "traceparent",
        "tracestate",
        "user-agent",
        "x-a2a-extensions",
    }
)
_TO_CALLER: Final = frozenset(
    {
        b"a2a-extensions",
        b"a2a-version",
        b"allow",
        b"cache-control",
        b"content-disposition",
        b"content-encoding",
        b"content-language",
        b"content-length",
        b"content-type",
        b"etag",
        b"expires",
        b"last-modified",
        b"retry-after",
        b"vary",
        b"x-a2a-extensions",
        b"x-accel-buffering",
        b"x-content-type-options",
    }
)
_WITHOUT_CONTENT: Final = frozenset({204, 304})
"""The statuses of responses that end with their headers (RFC 9110 §6.4.1). Their length, if any, is of no content."""
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_MOST_BYTES: Final = 32 * 1024


def to_agent(headers: RawHeaders) -> list[tuple[str, str]] | None:
    """Return the headers of the caller that pass to the agent, or None if they are too large."""
    passed = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.decode("latin-1").lower() in _TO_AGENT
    ]
    return passed if sum(len(name) + len(value) for name, value in passed) <= _MOST_BYTES else None


def to_caller(status: int, headers: RawHeaders) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers of the agent's response that the caller gets. `status` is that of the response."""
    listed = [(name.lower(), value) for name, value in headers]
    own = {each.strip().lower() for name, value in listed if name == b"connection" for each in value.split(b",")}
    if status in _WITHOUT_CONTENT:
        own.add(b"content-length")
    for name, value in listed:
        if name in _TO_CALLER and name not in own:
            yield name, value


def are_valid_headers(headers: RawHeaders) -> bool:
    """Return whether all names and values may be in a message (RFC 9110 §5.1, §5.5)."""
    return all(_NAME.fullmatch(name) and not _CONTROL.search(value) for name, value in headers)
