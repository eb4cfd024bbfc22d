"""The outermost middlewares, which check the origin of a request, and the size and the type of its body.

The middlewares know HTTP only. They reject requests from browser origins that are not allowed, and bodies that are too
large, too slow, compressed or not JSON.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Any, Final

from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.utils.constants import VERSION_HEADER
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetwright_a2a.errors import CONTENT_TYPE_NOT_SUPPORTED, HttpRefusal, refuse

_logger = logging.getLogger(__name__)
_JSON: Final = frozenset({"application/json", "application/a2a+json"})
_EVERY: Final = "*"
MAX_BODY: Final = 1024 * 1024
BODY_SECONDS: Final = 9.0
"""The time limit of a body; shorter than `REQUEST_SECONDS` in `timeouts.py`, which closes the connection."""


class OriginCheck:
    """ASGI middleware that checks the Origin header of browsers; requests without the header pass.

    Pages of allowed origins may read the responses (CORS). Without a configured list, every origin is allowed, because
    a page needs a token like every other caller. The first request with an Origin header then logs a warning.
    """

    def __init__(self, app: ASGIApp, *, allowed: Collection[str] | None = None) -> None:
        """Args: `allowed` may contain `*` for every origin."""
        self._listed = allowed is not None
        self._allowed = frozenset(origin.lower() for origin in ((_EVERY,) if allowed is None else allowed))
        self._app = app
        self._shared = CORSMiddleware(app, **_SHARED, allow_origins=sorted(self._allowed)) if self._allowed else app
        self._varies = _EVERY not in self._allowed
        """True if responses depend on the origin, because `allowed` does not contain `*`. If `allowed` contains at
        least one origin, every response then has a `Vary` header.
        """
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origins = Headers(scope=scope).getlist("origin")
        if origins and not self._listed:
            self._warn()
        elif self._varies and any(origin.lower() not in self._allowed for origin in origins):
            await refuse(403, "Requests from this Origin are not accepted.")(scope, receive, send)
            return
        await (self._shared if origins or self._varies else self._app)(scope, receive, send)

    def _warn(self) -> None:
        """Log the warning only once, because callers control how often this happens."""
        if not self._warned:
            self._warned = True
            _logger.warning("a web page calls the agent, but no origins are configured: set auth.allowedOrigins")


_GATEWAY_RESPONSE_HEADERS: Final = (
    "Fleetwright-Cold-Start",
    "Fleetwright-Failure",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
)
_SHARED: Final[dict[str, Any]] = {
    "allow_methods": ["GET", "POST", "DELETE"],
    "allow_headers": [
        "Authorization",
        "X-API-Key",
        "Content-Type",
        HTTP_EXTENSION_HEADER,
        VERSION_HEADER,
        # The gateway reads these two. An agent ignores them.
        "Fleetwright-Repair",
        "X-Timeout",
    ],
    "expose_headers": ["Retry-After", "WWW-Authenticate", "ETag", HTTP_EXTENSION_HEADER, *_GATEWAY_RESPONSE_HEADERS],
}
"""The CORS settings: what a page of an allowed origin may send and read, from an agent or through the gateway."""


class _Disconnected(Exception):  # noqa: N818 - it ends a request and is not an error
    """The caller has disconnected before its body was complete."""


class BodyLimit:
    """ASGI middleware that reads the whole body of a POST, within limits, before the application sees the request.

    If the caller disconnects before its body is complete, the request ends without a response, and the application does
    not see it.
    """

    def __init__(self, app: ASGIApp, *, limit: int = MAX_BODY, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(headers)
        body: bytes | None = b""
        if refusal is None or "expect" not in headers:
            try:
                async with asyncio.timeout(self._seconds):
                    body = await self._take(receive)
            except TimeoutError:
                sentence = f"The body did not arrive within {self._seconds:g} seconds."
                refusal = refusal or refuse(408, sentence, headers=_CLOSE)
            except _Disconnected:
                return
        if body is None:
            refusal = refusal or self._too_large()
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, _replay(body or b"", receive), send)

    def _refusal(self, headers: Headers) -> HttpRefusal | None:
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:19]) > self._limit:
            return self._too_large()
        if headers.get("content-encoding", "identity").lower() != "identity":
            return refuse(415, "Compressed bodies are not accepted.", headers=_CLOSE)
        nothing = length == "0" and "transfer-encoding" not in headers
        if not nothing and headers.get("content-type", "").partition(";")[0].strip().lower() not in _JSON:
            sentence = "The Content-Type must be application/json."
            return refuse(415, sentence, code=CONTENT_TYPE_NOT_SUPPORTED, headers=_CLOSE)
        return None

    async def _take(self, receive: Receive) -> bytes | None:
        """Return the body, or None if it is too large. Raises: _Disconnected.

        A body that is too large is read to its end and discarded. Otherwise a caller that is still sending would see a
        connection reset instead of the error response.
        """
        body, size = bytearray(), 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            piece = message.get("body", b"")
            size += len(piece)
            if size <= self._limit:
                body += piece
            if not message.get("more_body", False):
                return bytes(body) if size <= self._limit else None

    def _too_large(self) -> HttpRefusal:
        return refuse(413, f"The body is larger than {self._limit} bytes.", headers=_CLOSE)


# The rest of a body that was not read to its end must not be parsed as the next request.
_CLOSE: Final = {"Connection": "close"}


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
