"""The second port: health, readiness with its reason, metrics, and what only the running agent knows.

Never in the Service; reached by the kubelet, the operator and Prometheus. Served by a thread of its own, so that it
answers also while the agent's loop is blocked: what it calls only reads. Refuses: anything about callers or contents.
"""

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetwright_agent.metrics import Metrics
from fleetwright_agent.server.heartbeat import Heartbeat


def ops_app(
    *,
    metrics: Metrics,
    not_ready: Callable[[], str | None],
    status: Callable[[], Mapping[str, Any]],
    heartbeat: Heartbeat,
) -> Starlette:
    async def healthz(_: Request) -> Response:
        return PlainTextResponse(f"{heartbeat.stalled()}\n", status_code=503) if heartbeat.dead else _ok()

    async def readyz(_: Request) -> Response:
        reason = heartbeat.stalled() or not_ready()
        return _ok() if reason is None else PlainTextResponse(f"{reason}\n", status_code=503)

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


def _ok() -> Response:
    return PlainTextResponse("ok\n")
