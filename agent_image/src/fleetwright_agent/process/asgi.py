"""The ASGI app of the A2A port, from the outside in: origin, authentication, rate limit, body limit, protocol."""

from starlette.routing import Router
from starlette.types import ASGIApp

from fleetwright_a2a.authentication import AuthenticationMiddleware
from fleetwright_a2a.bindings.calls import Admission
from fleetwright_a2a.http.edge import BodyLimit, OriginCheck
from fleetwright_a2a.http.rate_limits import RateLimit
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.server.admin.routes import Admin
from fleetwright_agent.server.card import card_routes
from fleetwright_agent.server.extensions import spoken
from fleetwright_agent.server.routes import routes
from fleetwright_agent.server.tasks.request_handler import TaskRequestHandler
from fleetwright_agent.telemetry.metrics import Metrics


def asgi_app(parts: Dependencies, *, metrics: Metrics, admission: Admission) -> ASGIApp:
    """Return the app; `admission` returns why an operation cannot run at the moment."""
    handler = TaskRequestHandler(
        parts.intake,
        log=parts.log,
        tasks=parts.tasks,
        runs=parts.runs,
        pushes=parts.pushes,
        extended=parts.extended,
        may_reply=parts.may_reply,
        most_streams=parts.config.limits.max_streams_per_caller,
    )
    extensions = spoken(parts.config, foreign=parts.may_reply)
    calls = routes(
        handler,
        parts.config.dialects,
        tasks=parts.tasks,
        admission=admission,
        spoken=extensions,
        card=parts.card,
        keepalive=parts.keepalive_seconds,
    )
    admin = Admin(parts.config.administrators, erasure=parts.erasure, stores=parts.stores)
    # Every endpoint handles its own errors; the server answers and logs any other exception.
    app: ASGIApp = Router(routes=[*calls, *card_routes(parts.card), *admin.routes])
    app = BodyLimit(app, limit=parts.config.limits.max_request_bytes)
    if per_minute := parts.config.limits.max_requests_per_minute:
        app = RateLimit(app, per_minute=per_minute, clock=parts.clock)
    app = AuthenticationMiddleware(
        app, identity=parts.identity, on_failure=lambda reason: metrics.auth_failures.labels(reason).inc()
    )
    return OriginCheck(app, allowed=parts.config.allowed_origins)
