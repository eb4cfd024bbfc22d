"""Sends one request to the pod of an agent, and streams the response to the caller.

No stream is buffered. After the request has been sent it is never sent again, because the agent may have acted on it;
the agent recognises a repeated message by its id. The only exception is a response that says that the agent has not
accepted the request. A caller that disconnects does not stop the request: the agent's answer is read to its end. The
gateway closes event streams only, because the agent continues its task without them.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import aiohttp
from starlette.types import Message, Receive, Send
from yarl import URL

from fleetwright_a2a.errors import NOT_ACCEPTED
from fleetwright_gateway.proxy.headers import are_valid_headers, to_caller

MAX_RESPONSE: Final = 10 * 1024 * 1024
REFUSED: Final = "refused"
"""The reason of a `ProxyError` if the agent does not accept the token of the request."""
UNREACHABLE: Final = "unreachable"
"""The reason of a `ProxyError` if no connection to the pod was made, so that the agent received nothing."""
PROTOCOL: Final = "protocol"
"""The reason of a `ProxyError` if the answer of the agent is not a final response of HTTP/1.1 (RFC 9110 §15)."""
SIZE: Final = "size"
"""The reason of a `ProxyError` if the answer of the agent is too large."""
_UNAVAILABLE: Final = 503
_LAST_STATUS: Final = 599
_EVENT_STREAM: Final = "text/event-stream"
_OWN_HEADERS: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_READ_BYTES: Final = 16 * 1024
_KEEPALIVE_SECONDS: Final = 30
_SLOW: Final = "The agent did not answer in time. It may still work on it."


class ProxyError(Exception):
    """The request failed before a byte of the response was sent to the caller."""

    def __init__(self, status: int, reason: str, sentence: str, *, retry_seconds: int = 0) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.sentence = sentence
        self.retry_seconds = retry_seconds


class NotAccepted(ProxyError):  # noqa: N818 - an answer of the agent
    """The agent process no longer accepts messages. The gateway may send the request to the next process."""

    def __init__(self) -> None:
        super().__init__(503, "not_accepted", "The agent is shutting down.", retry_seconds=1)


class ResponseAborted(Exception):  # noqa: N818 - the HTTP server closes the connection because of it
    """The response of the agent ended early. The caller's connection is closed, so that it cannot look complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    method: str
    url: str
    """With the path and the query exactly as the caller encoded them."""
    headers: Sequence[tuple[str, str]]
    body: bytes
    idle_seconds: float
    """Seconds without any byte from the agent, after which the response ends; 0 means never."""
    may_repeat: bool = False
    """True if the request can be sent again after `NotAccepted`. Otherwise, the caller gets the agent's response."""
    delegate: Callable[[str], Sequence[tuple[str, str]]] = lambda _: ()
    """Returns the headers with which the agent may act for the principal of a message. The argument is the id of the
    task that the message names; empty if the message begins a task."""

    def for_message(self, task_id: str) -> "OutboundRequest":
        """Return the request with the delegation for its message."""
        return replace(self, headers=[*self.headers, *self.delegate(task_id)])


class Forwarder:
    def __init__(self, *, connect_seconds: float, max_response: int = MAX_RESPONSE) -> None:
        self._connect_seconds = connect_seconds
        self._max_response = max_response
        self._session = client_session()

    async def aclose(self) -> None:
        await self._session.close()

    async def forward(
        self, request: OutboundRequest, receive: Receive, send: Send, *, extra: Sequence[tuple[bytes, bytes]] = ()
    ) -> int:
        """Forward a request and return the status of the response. `extra` are headers for the caller.

        Raises:
            NotAccepted: The agent did not accept the request, and the request may be repeated.
            ProxyError: Nothing was sent to the caller yet.
            ResponseAborted: The response ended early.
        """
        answer = await self._open(request)
        try:
            headers = [*to_caller(answer.status, answer.raw_headers), *extra]
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            if is_event_stream(answer):
                await _until_disconnect(self._pass_on(answer, send, limit=None), receive)
            else:
                await self._pass_on(answer, send, limit=self._max_response)
            return answer.status
        finally:
            _close(answer)

    @contextlib.asynccontextmanager
    async def opened(self, request: OutboundRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and return the response when its headers have arrived. Raises: NotAccepted, ProxyError."""
        answer = await self._open(request)
        try:
            yield answer
        finally:
            _close(answer)

    async def _open(self, request: OutboundRequest) -> aiohttp.ClientResponse:
        try:
            answer = await self._session.request(
                request.method,
                URL(request.url, encoded=True),
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                timeout=timeout(self._connect_seconds, request.idle_seconds),
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise ProxyError(502, UNREACHABLE, "The agent's pod cannot be reached.", retry_seconds=2) from None
        except TimeoutError:
            raise ProxyError(504, "timeout", _SLOW) from None
        except aiohttp.ClientResponseError:
            raise _protocol_error("with bytes that are not HTTP/1.1, or with a header above 8 KB") from None
        except (aiohttp.ClientError, OSError):
            sentence = "The connection to the agent was lost before it answered. It may have received the request."
            raise ProxyError(502, "lost", sentence) from None
        try:
            self._check(answer, may_repeat=request.may_repeat)
        except BaseException:
            _close(answer)
            raise
        return answer

    def _check(self, answer: aiohttp.ClientResponse, *, may_repeat: bool) -> None:
        """Check the status and the stated size of a response. Raises: NotAccepted, ProxyError."""
        if may_repeat and answer.status == _UNAVAILABLE and NOT_ACCEPTED in answer.headers:
            raise NotAccepted
        if not 200 <= answer.status <= _LAST_STATUS:
            # An agent may not turn the connection of the caller into another protocol.
            raise _protocol_error(f"with the status {answer.status}")
        if answer.version is None or answer.version.major != 1:
            raise _protocol_error("in another version of HTTP than 1.1")
        if not are_valid_headers(answer.raw_headers):
            raise _protocol_error("with a malformed header")
        if answer.status == 401:
            raise ProxyError(502, REFUSED, "The agent does not accept the token of the request. Try again later.")
        if not is_event_stream(answer) and (answer.content_length or 0) > self._max_response:
            raise self._too_large()

    async def read(self, answer: aiohttp.ClientResponse) -> bytes:
        """Return the body of a response that is not streamed. Raises: ProxyError."""
        body = bytearray()
        try:
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > self._max_response:
                    raise self._too_large()
        except TimeoutError:
            raise ProxyError(504, "timeout", _SLOW) from None
        except (aiohttp.ClientError, OSError):
            raise ProxyError(502, "lost", "The connection to the agent was lost during its answer.") from None
        return bytes(body)

    def _too_large(self) -> ProxyError:
        return ProxyError(502, SIZE, f"The agent's answer is larger than {self._max_response} bytes.")

    async def _pass_on(self, answer: aiohttp.ClientResponse, send: Send, *, limit: int | None) -> None:
        size, more = 0, True
        try:
            while more:
                piece = await answer.content.readany()
                size += len(piece)
                if limit is not None and size > limit:
                    raise ResponseAborted(f"the answer is larger than {limit} bytes")
                # Most answers arrive in one piece, which is then the only message for the HTTP server.
                more = not answer.content.at_eof()
                await send({"type": "http.response.body", "body": piece, "more_body": more})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ResponseAborted(f"the agent's response ended early: {type(error).__name__}") from None


def _protocol_error(answered: str) -> ProxyError:
    return ProxyError(502, PROTOCOL, f"The agent answered {answered}. It may have received the request.")


def client_session() -> aiohttp.ClientSession:
    """Return a session for requests to pods, which passes headers and bodies unchanged."""
    session = aiohttp.ClientSession(
        # Only addresses of pods are used, so nothing is ever resolved, and no proxy of the environment applies.
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=_OWN_HEADERS,
        read_bufsize=_READ_BYTES,
        trust_env=False,
    )
    # aiohttp would repeat a GET or DELETE whose connection was lost. It has no public setting for this.
    session._retry_connection = False  # noqa: SLF001
    return session


@functools.lru_cache(maxsize=64)
def timeout(connect: float, idle: float) -> aiohttp.ClientTimeout:
    """Return the timeouts of a request. If `idle` is zero, the response may pause for any length of time."""
    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle or None)


def _close(answer: aiohttp.ClientResponse) -> None:
    """Free the connection. A response that was not read to its end closes its connection."""
    answer.release() if answer.content.at_eof() else answer.close()


def is_event_stream(answer: aiohttp.ClientResponse) -> bool:
    # The text may have surrogates, for bytes that are not UTF-8, so it cannot always be encoded.
    return answer.headers.get("Content-Type", "").lower().startswith(_EVENT_STREAM)


async def _until_disconnect(passing: Awaitable[None], receive: Receive) -> None:
    """Run until the stream ends or the caller disconnects."""
    streaming = asyncio.ensure_future(passing)
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({streaming, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if streaming.done():
            streaming.result()
    finally:
        for task in (streaming, leaving):
            task.cancel()
        await asyncio.gather(streaming, leaving, return_exceptions=True)


async def _disconnected(receive: Callable[[], Awaitable[Message]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
