"""The second port: health, readiness with its reason, metrics, and what only the running agent knows.

Never in the Service; reached by the kubelet, the operator and Prometheus. Refuses: anything about callers or contents.
"""

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetwright_agent.metrics import Metrics


def ops_app(
    *, metrics: Metrics, not_ready: Callable[[], str | None], status: Callable[[], Mapping[str, Any]]
) -> Starlette:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        reason = not_ready()
        return PlainTextResponse("ok\n") if reason is None else PlainTextResponse(f"{reason}\n", status_code=503)

    async def show_metrics(_: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def show_status(_: Request) -> Response:
        return JSONResponse(status())

    return Starlette(
        routes=[
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/metrics", show_metrics),
            Route("/status", show_status),
        ]
    )
