"""How a request leaves for the model: declared headers, authorities and proxy, all re-read when their files change.

The environment decides nothing: no variable of the pod changes where requests go or whom they trust.
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
"""The event loop takes all that a socket holds before the client reads any of it. A model that is faster than its
reader would have its whole answer in memory.
"""


@cache
def _trusted() -> ssl.SSLContext:
    """Read once: it takes as long as the rest of a short turn."""
    return httpx2.create_ssl_context(trust_env=False)


class ModelTransport(httpx2.AsyncBaseTransport):
    """One connection pool for as long as the trusted authorities are the same ones, and a new one afterwards."""

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
        # Pools of former authorities may have had calls in flight when they were replaced.
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
            raise UntrustedAuthority("the file with the authorities cannot be read") from error

    def _connect(self, authorities: bytes) -> httpx2.AsyncHTTPTransport:
        context = _trusted()
        if authorities:
            context = httpx2.create_ssl_context(trust_env=False)
            try:
                context.load_verify_locations(cadata=authorities.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError, ValueError) as error:
                raise UntrustedAuthority("the file with the authorities holds no PEM certificates") from error
        return httpx2.AsyncHTTPTransport(
            verify=context, trust_env=False, proxy=self._model.proxy_url, socket_options=_SOCKET_OPTIONS
        )
