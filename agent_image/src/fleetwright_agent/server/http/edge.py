"""The first things every request meets: where it comes from, and how much of it there may be.

Middlewares that know HTTP only. Refuses: browsers of origins that a list leaves out, and bodies that are large, slow,
packed or not JSON.
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

from fleetwright_agent.server.errors import Refusal, refuse

_logger = logging.getLogger(__name__)
_JSON: Final = frozenset({"application/json", "application/a2a+json"})
_EVERY: Final = "*"
MAX_BODY: Final = 1024 * 1024
BODY_SECONDS: Final = 9.0
"""Ten seconds are what a connection may be held for; the refusal is sent within them too."""


class Origins:
    """A browser says where its page comes from; programs say nothing and pass. Listed pages may read the answers.

    Without a list every page may, for it needs a token like everybody, and the log warns of it (PA-077).
    """

    def __init__(self, app: ASGIApp, *, allowed: Collection[str] | None = None) -> None:
        """Args: `allowed` may hold `*`, which is every origin."""
        self._listed = allowed is not None
        self._allowed = frozenset(origin.lower() for origin in ((_EVERY,) if allowed is None else allowed))
        self._app = app
        self._shared = CORSMiddleware(app, **_SHARED, allow_origins=sorted(self._allowed)) if self._allowed else app
        self._varies = _EVERY not in self._allowed
        """Whether an answer depends on the page, and says so also to who names none."""
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
        """Once: who calls decides how often it would be."""
        if not self._warned:
            self._warned = True
            _logger.warning("a page in a browser calls, and no origin is named that may: set auth.allowedOrigins")


_SHARED: Final[dict[str, Any]] = {
    "allow_methods": ["GET", "POST", "DELETE"],
    "allow_headers": ["Authorization", "X-API-Key", "Content-Type", HTTP_EXTENSION_HEADER, VERSION_HEADER],
    "expose_headers": ["Retry-After", "WWW-Authenticate", "ETag", HTTP_EXTENSION_HEADER],
}
"""What a page of a listed origin may send and see: a browser asks for it before the call itself."""


class Bodies:
    """Takes the whole body in before anything looks at it, within a size and a time."""

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
        if body is None:
            refusal = refusal or self._too_large()
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        await self._app(scope, _replay(body or b"", receive), send)

    def _refusal(self, headers: Headers) -> Refusal | None:
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:19]) > self._limit:
            return self._too_large()
        if headers.get("content-encoding", "identity").lower() != "identity":
            return refuse(415, "Compressed bodies are not accepted.", headers=_CLOSE)
        nothing = length == "0" and "transfer-encoding" not in headers
        if not nothing and headers.get("content-type", "").partition(";")[0].strip().lower() not in _JSON:
            return refuse(415, "The Content-Type must be application/json.", headers=_CLOSE)
        return None

    async def _take(self, receive: Receive) -> bytes | None:
        """The body; nothing if it is too large. A caller that leaves has sent what it has sent.

        What is too much is read to its end and thrown away: a caller that is still sending would see its connection
        reset instead of the refusal.
        """
        body, size = bytearray(), 0
        while True:
            message = await receive()
            piece = message.get("body", b"")
            size += len(piece)
            if size <= self._limit:
                body += piece
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return bytes(body) if size <= self._limit else None

    def _too_large(self) -> Refusal:
        return refuse(413, f"The body is larger than {self._limit} bytes.", headers=_CLOSE)


# What is left of a body that was not read to its end must not be taken for the next request.
_CLOSE: Final = {"Connection": "close"}


def _replay(body: bytes, receive: Receive) -> Receive:
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
