"""The FastAPI application with everything besides the proxy: keys, and the API documentation at `/docs`."""

from typing import Any

from fastapi import FastAPI
from starlette.responses import JSONResponse

from fleetwright_gateway.http.problems import install_problems
from fleetwright_gateway.tokens.key_ring import KeyRing

_KEY_SET_SECONDS = 300


def registry_app(*, ring: KeyRing) -> FastAPI:
    app = FastAPI(
        title="Fleetwright gateway",
        version="0.1.0",
        description="One URL for all agents: registry, token exchange and proxy.",
        redoc_url=None,
    )
    install_problems(app)

    @app.get("/.well-known/jwks.json", summary="Public keys of pair tokens", tags=["tokens"])
    async def key_set() -> Any:
        return JSONResponse(ring.key_set(), headers={"Cache-Control": f"public, max-age={_KEY_SET_SECONDS}"})

    return app
