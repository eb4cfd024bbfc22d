"""Serves the operator's probes and metrics over HTTP. No cluster content is served."""

import socket
from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fleetwright_operator.manager.health import ProcessHealth


def ops_app(health: ProcessHealth, registry: CollectorRegistry) -> web.Application:
    app = web.Application()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/healthz", _verdict(health.liveness_failure))
    app.router.add_get("/readyz", _verdict(health.readiness_failure))
    app.router.add_get("/metrics", metrics)
    return app


async def serve(app: web.Application, port: int, *, both: bool | None = None) -> web.AppRunner:
    """Serve on all addresses, of both IP families if the kernel supports that. The runner's `cleanup` stops it.

    Args: `both` is whether one socket accepts both families; if None, the kernel is asked.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    both = socket.has_dualstack_ipv6() if both is None else both
    family = socket.AF_INET6 if both else socket.AF_INET
    listener = socket.create_server(("", port), family=family, dualstack_ipv6=both)
    await web.SockSite(runner, listener).start()
    return runner


def _verdict(why_not: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(_: web.Request) -> web.StreamResponse:
        problem = why_not()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    return handle
