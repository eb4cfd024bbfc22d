"""Which headers pass the proxy. Pure.

Towards the agent only known headers pass, so that no header can claim an identity. Towards the caller everything passes
except what concerns one connection only. The header `X-Timeout` is for the proxy itself.
"""

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
_OF_ONE_CONNECTION: Final = frozenset(
    {
        "connection",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "server",
        "set-cookie",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "www-authenticate",
    }
)
_POD_ADDRESSES: Final = frozenset({"content-location", "location"})
"""The headers with addresses at the agent's pod, which no caller should use."""
_OF_GATEWAY: Final = frozenset(
    {
        "fleetwright-cold-start",
        "fleetwright-failure",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    }
)
"""The headers that only the gateway itself sets."""
_MOST_BYTES: Final = 32 * 1024


def to_agent(headers: RawHeaders) -> list[tuple[str, str]] | None:
    """Return the headers of the caller that pass to the agent, or None if they are too large."""
    passed = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.decode("latin-1").lower() in _TO_AGENT
    ]
    return passed if sum(len(name) + len(value) for name, value in passed) <= _MOST_BYTES else None


def to_caller(headers: RawHeaders) -> Iterator[tuple[bytes, bytes]]:
    """Yield the headers of the agent's response that the caller gets."""
    listed = [(name.lower(), value) for name, value in headers]
    named = {
        each.strip().lower()
        for name, value in listed
        if name == b"connection"
        for each in value.decode("latin-1").split(",")
    }
    for name, value in listed:
        text = name.decode("latin-1")
        if (
            text not in _OF_ONE_CONNECTION
            and text not in _OF_GATEWAY
            and text not in _POD_ADDRESSES
            and text not in named
        ):
            yield name, value
