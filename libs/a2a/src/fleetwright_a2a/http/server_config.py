"""The settings that all HTTP servers of the project share: agents, their operations ports, gateways and bridges."""

from typing import Final, Literal

import uvicorn
from starlette.types import ASGIApp

from fleetwright_a2a.http.timeouts import TimeoutProtocol

# Longer than the idle timeout of common proxies, so that a proxy never reuses a connection that the server is closing.
_KEEP_ALIVE_SECONDS: Final = 75


def http_config(
    app: ASGIApp,
    *,
    drain_seconds: float,
    lifespan: Literal["off", "on"] = "off",
    protocol: type[TimeoutProtocol] = TimeoutProtocol,
) -> uvicorn.Config:
    """Return the settings of an HTTP server.

    Args:
        app: The application.
        drain_seconds: The time that open requests get at the end. Fractions of a second are dropped.
        lifespan: `on` if the application starts and stops its own parts.
        protocol: A protocol with other limits, for tests.
    """
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=int(drain_seconds),
    )
