"""Sends one request for a chat completion, and yields the events of the answer.

It reads no environment variables, and does not retry.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx2

from fleetwright_a2a.http.event_decoder import EventDecoder, EventTooLarge
from fleetwright_agent.turn.providers.chat_completions.errors import (
    CompletionConnectionError,
    CompletionError,
    CompletionStatusError,
    CompletionTimeoutError,
    stated_error,
)
from fleetwright_agent.turn.providers.failures import MissingKey

_NO_KEY: Final = "none"
_END: Final = b"[DONE]"
_MOST_EVENT_BYTES: Final = 16 * 1024 * 1024
"""A provider that does not stream tool calls sends their arguments in one event."""
_MOST_ERROR_BYTES: Final = 64 * 1024
_DRAIN_SECONDS: Final = 0.1
_DRAIN_BYTES: Final = 64 * 1024
_BROKEN: Final = (httpx2.RequestError, ssl.SSLError, anyio.EndOfStream)
"""`httpx2` passes some errors of TLS connections on as they are."""


@dataclass(frozen=True, slots=True)
class CompletionsClient:
    http: httpx2.AsyncClient = field(repr=False)
    base_url: str
    key: Callable[[], Awaitable[str]] | None = field(repr=False)
    """Returns the API key. It is awaited before each call."""
    timeout: httpx2.Timeout

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """Send a request, and yield the events of its answer. The connection is released when the generator ends.

        Raises:
            CompletionStatusError: The provider refused the request.
            CompletionTimeoutError: The provider did not answer in time.
            CompletionConnectionError: There is no connection, or it broke.
            CompletionError: The stream contains an error, or is no stream of events.
            MissingKey: The key cannot be read or sent.
        """
        headers = await self._headers()
        try:
            request = self.http.build_request(
                "POST",
                f"{self.base_url.removesuffix('/')}/chat/completions",
                content=json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(),
                headers=headers,
                timeout=self.timeout,
            )
            response = await self.http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise await _status_error(response)
                async for event in _events(response.aiter_bytes()):
                    yield event
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            raise CompletionTimeoutError from error
        except _BROKEN as error:
            raise CompletionConnectionError from error

    async def _headers(self) -> dict[str, str]:
        key = _NO_KEY if self.key is None else await self.key()
        if not (key.isascii() and key.isprintable()):
            # The error of the HTTP client would quote the key.
            raise MissingKey("the key contains characters that an HTTP header cannot contain")
        kinds = {"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "fleetwright-agent"}
        return {**kinds, "Authorization": f"Bearer {key}"} if key else kinds


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    decoder, empty = EventDecoder(limit=_MOST_EVENT_BYTES), True
    async for piece in pieces:
        for data in _completed(decoder, piece):
            empty = False
            if data.startswith(_END):
                await _drain(pieces)
                return
            yield _decoded(data)
    if empty:
        raise CompletionError("The answer is no stream of events.")


def _completed(decoder: EventDecoder, piece: bytes) -> Iterator[bytes]:
    try:
        yield from decoder.feed(piece)
    except EventTooLarge:
        raise CompletionError(f"An event of the stream is larger than {_MOST_EVENT_BYTES} bytes.") from None


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        event = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise CompletionError("An event of the stream is not JSON.") from error
    if not isinstance(event, dict):
        raise CompletionError("An event of the stream is not an object.")
    if event.get("error"):
        message, code = stated_error(event)
        raise CompletionError(message or "An error occurred during streaming", code)
    return event


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Read the end of the response, because HTTP/1.1 can use the connection again only after that."""
    left = _DRAIN_BYTES
    with suppress(TimeoutError, *_BROKEN):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for piece in pieces:
                left -= len(piece)
                if left < 0:
                    return


async def _status_error(response: httpx2.Response) -> CompletionStatusError:
    body = bytearray()
    with suppress(*_BROKEN):  # The status alone also says what failed.
        async for piece in response.aiter_bytes():
            body += piece
            if len(body) >= _MOST_ERROR_BYTES:
                break
    message, code = "", None
    with suppress(ValueError, RecursionError):
        message, code = stated_error(json.loads(body[:_MOST_ERROR_BYTES]))
    about = f"Error code: {response.status_code}"
    return CompletionStatusError(
        response.status_code, f"{about} - {message}" if message else about, code, response.headers
    )
