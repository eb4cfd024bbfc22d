"""The HTTP transport of requests to models, with the declared headers, certificate authorities and proxy.

Headers and certificate authorities are read again for each request. Environment variables of the pod influence neither
the destination nor the trusted authorities.
"""

import socket
import ssl
from functools import cache
from typing import Final

import httpx2

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Endpoint, Header
from fleetwright_agent.telemetry.tracing import traceparent
from fleetwright_agent.turn.providers.failures import MissingKey, UntrustedAuthority

_SOCKET_OPTIONS: Final = ((socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024),)
"""The event loop reads everything in the socket buffer at once. With the default buffer, the whole answer of a fast
model would be in memory.
"""


@cache
def _trusted() -> ssl.SSLContext:
    """Load the default authorities once, because loading them takes as long as the rest of a short turn."""
    return httpx2.create_ssl_context(trust_env=False)


class ModelTransport(httpx2.AsyncBaseTransport):
    """Keeps one connection pool, and replaces the pool when the trusted authorities change."""

    def __init__(self, model: Endpoint, layout: Layout) -> None:
        self._model = model
        self._layout = layout
        self._pool: httpx2.AsyncHTTPTransport | None = None
        self._trusted: bytes | None = None
        self._retired: list[httpx2.AsyncHTTPTransport] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        for header in self._model.headers:
            request.headers[header.name] = self._value(header)
        if parent := traceparent():
            request.headers["traceparent"] = parent
        return await self._current().handle_async_request(request)

    async def aclose(self) -> None:
        # Replaced pools are closed only here, because they may still have had requests in flight when replaced.
        for pool in [*self._retired, *([self._pool] if self._pool else [])]:
            await pool.aclose()

    def _value(self, header: Header) -> str:
        try:
            return self._layout.secret(header.value_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise MissingKey(f"the file with the header {header.name} cannot be read") from error

    def _current(self) -> httpx2.AsyncHTTPTransport:
        wanted = self._authorities()
        if self._pool is None or wanted != self._trusted:
            fresh = self._connect(wanted)
            if self._pool is not None:
                self._retired.append(self._pool)
            self._pool, self._trusted = fresh, wanted
        return self._pool

    def _authorities(self) -> bytes:
        if self._model.ca_file is None:
            return b""
        try:
            return self._layout.secret(self._model.ca_file).read_bytes()
        except OSError as error:
            raise UntrustedAuthority("the file with the certificate authorities cannot be read") from error

    def _connect(self, authorities: bytes) -> httpx2.AsyncHTTPTransport:
        context = _context(self._model, authorities)
        return httpx2.AsyncHTTPTransport(
            verify=context,
            trust_env=False,
            proxy=_build_proxy(self._model, context),
            socket_options=_SOCKET_OPTIONS,
        )


def _build_proxy(model: Endpoint, context: ssl.SSLContext) -> httpx2.Proxy | None:
    """Return the proxy. A proxy with an https URL is verified with the authorities of the model."""
    if model.proxy_url is None:
        return None
    return httpx2.Proxy(model.proxy_url, ssl_context=context if model.proxy_url.startswith("https:") else None)


def _context(model: Endpoint, authorities: bytes) -> ssl.SSLContext:
    """Return the settings of TLS. Raises: UntrustedAuthority."""
    if authorities:
        context = httpx2.create_ssl_context(trust_env=False)
        try:
            context.load_verify_locations(cadata=authorities.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
            raise UntrustedAuthority("the file with the certificate authorities contains no valid PEM") from error
        return context
    if model.base_url.startswith("http://") and model.proxy_url is None:
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Plain HTTP does not use it.
    return _trusted()
