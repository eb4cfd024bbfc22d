"""Which headers pass the proxy. Pure.

Towards the agent only known headers pass, so that no header can claim an identity. Towards the caller everything passes
except what concerns one connection only. The header `X-Timeout` is for the proxy itself.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from fleetwright_a2a.authentication import DELEGATION

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
TIMEOUT: Final = "x-timeout"
_LONGEST_IDLE_SECONDS: Final = 86_400
_MOST_BYTES: Final = 32 * 1024


def to_agent(headers: RawHeaders, *, token: str, delegation: str = "") -> list[tuple[str, str]] | None:
    """Return the headers of the request to the agent, or None if they are too large.

    Args:
        headers: The headers of the caller.
        token: The pair token.
        delegation: The delegation for the agent, if the request may begin a task.
    """
    passed = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in headers
        if name.decode("latin-1").lower() in _TO_AGENT
    ]
    if sum(len(name) + len(value) for name, value in passed) > _MOST_BYTES:
        return None
    delegated = [(DELEGATION, delegation)] if delegation else []
    return [*passed, ("Authorization", f"Bearer {token}"), *delegated]


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
        if text not in _OF_ONE_CONNECTION and text not in named:
            yield name, value


def idle_seconds(text: str, default: float) -> float:
    """Return the idle timeout that the header `X-Timeout` asks for. Raises: ValueError."""
    if not text:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_LONGEST_IDLE_SECONDS))
    if not is_number or int(text) > _LONGEST_IDLE_SECONDS:
        raise ValueError(
            f"X-Timeout must be a whole number of seconds up to {_LONGEST_IDLE_SECONDS}; 0 means no limit."
        )
    return float(text)
