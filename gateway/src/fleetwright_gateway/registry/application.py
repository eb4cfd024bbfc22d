"""The FastAPI application with everything besides the proxy: the registry, ARD, public keys, and `/docs`."""

from typing import Any, Final

from fastapi import FastAPI
from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses
from fleetwright_gateway.http.admission import RequestAdmission
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.http.errors import install_errors
from fleetwright_gateway.http.protected import Protected
from fleetwright_gateway.registry.api_document import describe_routes
from fleetwright_gateway.registry.ard import ArdEntries, ard_routes
from fleetwright_gateway.registry.directory import Directory
from fleetwright_gateway.registry.events import EventStreams, event_routes
from fleetwright_gateway.registry.search_index import SearchIndex
from fleetwright_gateway.registry.v1 import v1_routes
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.tokens.key_ring import KeyRing

_PUBLIC: Final = frozenset({"/.well-known/ard.json", "/.well-known/jwks.json", "/docs", "/openapi.json"})
_KEY_SET_SECONDS: Final = 300


def registry_app(
    *,
    fleet: Fleet,
    visibility: Visibility,
    admission: RequestAdmission,
    cards: CardResponses,
    ring: KeyRing,
    metrics: GatewayMetrics,
    publisher: str,
    addresses: Addresses,
) -> ASGIApp:
    """Args: `publisher` is the domain in the identifiers of ARD."""
    app = FastAPI(
        title="Fleetwright gateway",
        version="0.1.0",
        description="One URL for all agents. Requests to agents go to `/agents/{namespace}/{name}`.",
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
    )
    install_errors(app)
    describe_routes(app)
    directory = Directory(visibility, admission, SearchIndex(fleet), fleet)
    app.include_router(v1_routes(directory, fleet, cards, addresses))
    app.include_router(event_routes(EventStreams(directory, fleet)))
    app.include_router(ard_routes(directory, ArdEntries(addresses, publisher=publisher)))

    @app.get("/.well-known/jwks.json", summary="Public keys of the gateway's tokens", tags=["tokens"])
    async def key_set() -> Any:
        return JSONResponse(ring.key_set(), headers={"Cache-Control": f"public, max-age={_KEY_SET_SECONDS}"})

    return Protected(app, admission=admission, public=_PUBLIC, metrics=metrics)
