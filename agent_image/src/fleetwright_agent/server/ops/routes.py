"""The operations port: health, readiness with its reason, metrics, and a status report.

The Service does not expose this port. The kubelet, the operator and Prometheus use it. A separate thread serves the
port, so that it answers even while the agent's event loop is blocked. Its handlers therefore only read. Responses
contain nothing about callers or the content of tasks.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from fleetwright_a2a.authentication import AGENT_UID
from fleetwright_agent.server.ops.event_loop_watchdog import EventLoopWatchdog

_START_PAUSE_SECONDS: Final = 0.02
_START_LOOKS: Final = 150
"""Three seconds in total, less than the five seconds that the operator's probes wait for an answer."""


def ops_app(
    *,
    metrics: Callable[[], CollectorRegistry],
    not_ready: Callable[[], str | None],
    status: Callable[[], Mapping[str, Any]],
    scraped: Callable[[], None] = lambda: None,
    heartbeat: EventLoopWatchdog,
    is_starting: Callable[[], bool] = lambda: False,
    agent_uid: Callable[[], str | None] = lambda: None,
) -> Starlette:
    """Return the application of the operations port.

    Args:
        metrics: Returns the metrics to expose; called in another thread.
        scraped: Called before the metrics are read for a response.
        is_starting: Returns true until the agent has opened its memory. Until then, the response to a readiness probe
            is delayed, because the kubelet would wait a whole second before it repeats a failed probe.
        agent_uid: Returns the uid of the Agent. The gateway checks with it which agent answers at an address.
    """

    async def healthz(_: Request) -> Response:
        return PlainTextResponse(f"{heartbeat.stalled()}\n", status_code=503) if heartbeat.dead else _ok()

    async def readyz(_: Request) -> Response:
        for _look in range(_START_LOOKS):
            if not is_starting():
                break
            await asyncio.sleep(_START_PAUSE_SECONDS)
        reason = heartbeat.stalled() or not_ready()
        if reason is not None:
            return PlainTextResponse(f"{reason}\n", status_code=503)
        uid = agent_uid()
        return _ok() if uid is None else _ok({AGENT_UID: uid})

    async def show_metrics(request: Request) -> Response:
        if request.method == "GET":
            scraped()
        # Storing the counters may take long if the volume is slow, and probes must be answered meanwhile.
        return Response(generate_latest(await asyncio.to_thread(metrics)), media_type=CONTENT_TYPE_LATEST)

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


def _ok(headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse("ok\n", headers=headers)
