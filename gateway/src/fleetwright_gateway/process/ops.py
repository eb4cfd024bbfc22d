"""The operations port: probes and metrics. No content of the cluster is served."""

from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def ops_app(registry: CollectorRegistry, *, not_ready: Callable[[], str]) -> Starlette:
    """Args: `not_ready` returns why the process should get no traffic; empty if it is ready."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        reason = not_ready()
        return PlainTextResponse(reason or "ok", status_code=503 if reason else 200)

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)])
