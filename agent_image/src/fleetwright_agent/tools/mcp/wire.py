"""The HTTP transport of an MCP session: it records whether a request reached the server, and how a connection ended.

These facts decide whether a tool may be called again. The MCP client hides them: an HTTP error ends the whole session
silently, and after a truncated response stream the caller waits. Headers come from mounted files that are read for
every request, so a rotated credential needs no new connection. Messages contain no addresses and no credentials.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from enum import Enum
from functools import cache
from http import HTTPStatus
from typing import cast

import httpx

from fleetwright_a2a.outbound.bounded_responses import BoundedTransport, TooLarge
from fleetwright_a2a.outbound.pinned_http import DeniedAddress, PinnedTransport, ProxiedTransport
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, UnusableUrl
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer, Transport

CALL_SECONDS = 300.0
MOST_BYTES = 8 * 1024 * 1024
"""The limit in bytes for one response, or for one event of an event stream, as received."""
_FLOODED = "sends more than this agent reads"
_CONNECT_SECONDS = 10.0
_ANSWER_GRACE_SECONDS = 1.0
# If the server numbers its events, the MCP client tries to resume a truncated stream at most twice. Before each of the
# two attempts it waits a second.
_RESUME_GRACE_SECONDS = 2 * (_CONNECT_SECONDS + 1.0)
# With these statuses, the server or a proxy in front of it rejected the request without processing it.
_TURNED_AWAY = frozenset({400, 401, 403, 404, 405, 406, 407, 413, 415, 429})


class Arrival(Enum):
    """States whether the server may have processed a request that got no answer."""

    NONE = "it never reached the server"
    TURNED_AWAY = "the server is there and did not take it in"
    UNKNOWN = "it may have been carried out"


class McpUnreachable(Exception):  # noqa: N818 - describes the server
    """The server cannot be used; the message describes the symptom, without addresses."""

    def __init__(self, message: str, *, arrival: Arrival = Arrival.UNKNOWN) -> None:
        super().__init__(message)
        self.arrival = arrival


class McpMisconfigured(McpUnreachable):
    """The entry of the server cannot be used, so no request was sent. A retry fails too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, arrival=Arrival.NONE)


class McpTransport(httpx.AsyncBaseTransport):
    """The HTTP transport of one session. Call `expect` before a request is sent, and `forget` afterwards."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        *,
        headers: Callable[[], Mapping[str, str]],
        answers_in_body: bool,
        through_proxy: bool = False,
    ) -> None:
        """
        Args:
            inner: Sends the requests.
            headers: Returns the declared headers, for each request.
            answers_in_body: True if the server can send an answer only in the HTTP response to its request.
            through_proxy: True if failed connections are those to a proxy.
        """
        self._inner = inner
        self._headers = headers
        self._answers_in_body = answers_in_body
        self._through_proxy = through_proxy
        self._expected: dict[int, asyncio.Future[None]] = {}
        self.trouble = ""
        """The latest failure."""

    def expect(self, identity: int) -> asyncio.Future[None]:
        """Return a future that fails with McpUnreachable if the request can get no answer. It never has a result."""
        self._expected[identity] = asyncio.get_running_loop().create_future()
        return self._expected[identity]

    def forget(self, identity: int) -> None:
        self._expected.pop(identity).cancel()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        identity = _identity(request)
        try:
            request.headers.update(self._headers())
            response = await self._inner.handle_async_request(request)
        except McpUnreachable as error:
            self._fail(identity, str(error), arrival=Arrival.NONE)
            raise
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            self._fail(identity, _words(error, through_proxy=self._through_proxy), arrival=Arrival.NONE)
            raise
        except httpx.HTTPError as error:
            self._fail(identity, _words(error, through_proxy=self._through_proxy), arrival=Arrival.UNKNOWN)
            raise
        if response.status_code >= HTTPStatus.BAD_REQUEST:
            turned_away = response.status_code in _TURNED_AWAY
            arrival = Arrival.TURNED_AWAY if turned_away else Arrival.UNKNOWN
            self._fail(identity, _refusal(response), arrival=arrival)
        elif response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            self.trouble = "redirects to another address: name that one"
        else:
            response.stream = _Body(
                cast("httpx.AsyncByteStream", response.stream),
                ended=lambda more: self._ended(identity, more),
                flooded=lambda: self._fail(identity, _FLOODED, arrival=Arrival.UNKNOWN),
            )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _ended(self, identity: int | None, resumable: bool) -> None:
        """Fail the request after a grace period, because the session may still be delivering the answer."""
        if identity is None or not self._answers_in_body:
            return
        grace = _RESUME_GRACE_SECONDS if resumable else _ANSWER_GRACE_SECONDS
        words = "ended the connection before it answered"
        asyncio.get_running_loop().call_later(grace, lambda: self._fail(identity, words, arrival=Arrival.UNKNOWN))

    def _fail(self, identity: int | None, words: str, *, arrival: Arrival) -> None:
        expected = self._expected.get(identity) if identity is not None else None
        if expected is None and identity is not None:
            return  # The request was already answered.
        self.trouble = words
        if expected is not None and not expected.done():
            expected.set_exception(McpUnreachable(words, arrival=arrival))


class _Body(httpx.AsyncByteStream):
    """A response stream that reports its end, whether its events were numbered, and whether it was too large."""

    def __init__(
        self, inner: httpx.AsyncByteStream, *, ended: Callable[[bool], None], flooded: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._ended = ended
        self._flooded = flooded
        self._numbered = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                self._numbered = self._numbered or chunk.startswith(b"id:") or b"\nid:" in chunk
                yield chunk
        except TooLarge:
            self._flooded()
            raise

    async def aclose(self) -> None:
        self._ended(self._numbered)
        await self._inner.aclose()


def wire_of(server: McpServer, layout: Layout, *, denied: tuple[Network, ...] = ()) -> McpTransport:
    """Return the transport, which ignores environment variables and connects only to the declared host or its proxy.

    Raises:
        McpMisconfigured: The configured address or proxy cannot be used.
        McpUnreachable: The CA file cannot be read.
    """
    try:
        policy = EgressPolicy.declared([server.url], denied=denied)
    except UnusableUrl as error:
        raise McpMisconfigured(f"has an address that cannot be called: {error}") from None
    inner = BoundedTransport(
        _build_transport(server, policy, _trust(server, layout)),
        document=MOST_BYTES,
        stream=MOST_BYTES,
        event=MOST_BYTES,
    )
    return McpTransport(
        inner,
        headers=lambda: header_values(server, layout),
        answers_in_body=server.transport is Transport.STREAMABLE_HTTP,
        through_proxy=server.proxy_url is not None,
    )


def _build_transport(server: McpServer, policy: EgressPolicy, trusted: ssl.SSLContext) -> httpx.AsyncBaseTransport:
    if server.proxy_url is None:
        return PinnedTransport(policy, verify=trusted)
    if server.headers and not server.url.startswith("https:"):
        raise McpMisconfigured("must have an https address: a proxy would read the headers of its Secrets")
    try:
        return ProxiedTransport(policy, proxy=server.proxy_url, verify=trusted)
    except UnusableUrl as error:
        raise McpMisconfigured(f"has a proxy that cannot be called: {error}") from None


def http_client(wire: McpTransport) -> httpx.AsyncClient:
    timeout = httpx.Timeout(CALL_SECONDS, connect=_CONNECT_SECONDS)
    return httpx.AsyncClient(transport=wire, trust_env=False, timeout=timeout)


def header_values(server: McpServer, layout: Layout) -> dict[str, str]:
    """Raises: McpUnreachable: a file cannot be read, or its content is not valid in a header."""
    values = {}
    for header in server.headers:
        try:
            value = layout.secret(header.value_file).read_text().strip()
        except (OSError, ValueError):
            raise McpUnreachable(f"lacks its header {header.name}: {header.value_file} cannot be read") from None
        if not value.isascii() or not value.isprintable():
            raise McpUnreachable(f"lacks its header {header.name}: {header.value_file} is no single line of ASCII")
        values[header.name] = value
    return values


def _trust(server: McpServer, layout: Layout) -> ssl.SSLContext:
    if server.ca_file is None:
        return system_authorities()
    context = ssl.create_default_context()
    try:
        context.load_verify_locations(cafile=layout.secret(server.ca_file))
    except (OSError, ValueError):
        raise McpUnreachable(
            f"cannot be trusted: {server.ca_file} holds no certificate", arrival=Arrival.NONE
        ) from None
    return context


@cache
def system_authorities() -> ssl.SSLContext:
    """Return the trust store of the system, loaded once because that takes tens of milliseconds."""
    return ssl.create_default_context()


def _identity(request: httpx.Request) -> int | None:
    """Return the id of the JSON-RPC request, or `None` if it is not a request."""
    if request.method != "POST":
        return None
    message = json.loads(request.content)
    identity = message.get("id") if "method" in message else None
    return identity if isinstance(identity, int) else None


def _refusal(response: httpx.Response) -> str:
    code = response.status_code
    phrase = HTTPStatus(code).phrase if code in HTTPStatus._value2member_map_ else ""
    hint = ": check the headers that it wants" if code in {401, 403} else ""
    return f"answers {code} {phrase}".rstrip() + hint


def _words(error: httpx.HTTPError, *, through_proxy: bool) -> str:
    if isinstance(error, DeniedAddress):
        return f"leads to an address that agents may not reach{', or its proxy does' if through_proxy else ''}"
    if isinstance(error, httpx.ProxyError):
        # The text is the status and the phrase of the proxy; the model must not read a foreign phrase.
        return f"cannot be reached: its proxy answers {str(error).partition(' ')[0]}"
    if isinstance(error, TooLarge):
        return "compresses its answers, though it was asked not to"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"shows a certificate that is not trusted: {cause.verify_message}"
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        return "did not answer in time"
    if isinstance(error, httpx.ConnectError):
        return "cannot be reached through its proxy" if through_proxy else "cannot be reached"
    return "broke the connection"
