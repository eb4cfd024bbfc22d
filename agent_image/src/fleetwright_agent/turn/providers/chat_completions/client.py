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
    EarlyEndError,
    StatedError,
    describe_error,
    read_error,
)
from fleetwright_agent.turn.providers.failures import MissingKey

_NO_KEY: Final = "none"
_END: Final = b"[DONE]"
_NAMES: Final = (b"data", b"error")
"""The fields of events that are read. Older versions of llama.cpp send errors in a field of their own."""
_BLANKS: Final = b"\xef\xbb\xbf \t\r\n"
"""A byte order mark, and white space."""
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

        Some servers do not stream. Their answer is one event.

        Raises:
            CompletionStatusError: The provider refused the request.
            CompletionTimeoutError: The provider did not answer in time.
            CompletionConnectionError: There is no connection, or it broke.
            EarlyEndError: The stream ended without the sign of its end. All its events were yielded before.
            CompletionError: The answer contains an error, or is neither a stream of events nor a JSON object.
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
    """Yield the events of an answer. An answer that is no stream is one event, whatever its content type says."""
    begin = await _skip_blanks(pieces)
    if begin.startswith((b"{", b"[")):
        yield _decoded_answer(await _read_rest(begin, pieces))
        return
    decoder, empty = EventDecoder(limit=_MOST_EVENT_BYTES, names=_NAMES), True
    async for piece in _chain(begin, pieces):
        for data in _completed(decoder, piece):
            if not data.strip():
                continue  # Some servers keep the connection alive with events without data.
            empty = False
            if data.startswith(_END):
                await _drain(pieces)
                return
            yield _decoded(data)
    raise CompletionError("The answer is no stream of events.") if empty else EarlyEndError


async def _skip_blanks(pieces: AsyncIterator[bytes]) -> bytes:
    """Return the first piece with content, from there on. Blanks before an answer have no meaning."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        if begin := piece.lstrip(_BLANKS):
            return begin
        if size > _MOST_EVENT_BYTES:
            raise CompletionError("The answer is no stream of events.")
    return b""


async def _chain(begin: bytes, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begin
    async for piece in pieces:
        yield piece


async def _read_rest(begin: bytes, pieces: AsyncIterator[bytes]) -> bytes:
    body = bytearray(begin)
    async for piece in pieces:
        body += piece
        if len(body) > _MOST_EVENT_BYTES:
            raise CompletionError(f"The answer is larger than {_MOST_EVENT_BYTES} bytes.")
    return bytes(body)


def _decoded_answer(body: bytes) -> dict[str, Any]:
    """Return a whole answer. Raises: CompletionError, also for an object that is no answer."""
    answer = _decoded(body)
    choices = answer.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and isinstance(choice.get("message", choice.get("delta")), dict):
            return answer
    stated = describe_error(answer)
    raise CompletionError(stated.message or "The answer has no choice.", stated.codes)


def _completed(decoder: EventDecoder, piece: bytes) -> Iterator[bytes]:
    try:
        yield from decoder.feed(piece)
    except EventTooLarge:
        raise CompletionError(f"An event of the stream is larger than {_MOST_EVENT_BYTES} bytes.") from None


def _decoded(data: bytes) -> dict[str, Any]:
    """Return an event, or a whole answer. Raises: CompletionError, also if it is an error of the provider."""
    try:
        event = json.loads(data.decode("utf-8-sig"))
        stated = read_error(event)
    except (ValueError, RecursionError) as error:
        raise CompletionError("An event of the answer is not JSON.") from error
    if stated is not None:
        raise CompletionError(stated.message or "An error occurred during streaming", stated.codes)
    if not isinstance(event, dict):
        raise CompletionError("An event of the answer is not an object.")
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
    stated = StatedError()
    with suppress(ValueError, RecursionError):
        # A proxy that has begun to stream sends its error as an event.
        text = bytes(body[:_MOST_ERROR_BYTES]).strip().removeprefix(b"data:")
        stated = describe_error(json.loads(text))
    about = f"Error code: {response.status_code}"
    return CompletionStatusError(
        response.status_code,
        f"{about} - {stated.message}" if stated.message else about,
        stated.codes,
        response.headers,
    )
