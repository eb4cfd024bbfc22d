"""The ASGI app of the A2A port. A request passes origin check, authentication, rate limit, body limit and router."""

from starlette.routing import Router
from starlette.types import ASGIApp

from fleetwright_a2a.authentication import AuthenticationMiddleware
from fleetwright_a2a.bindings.calls import Admission
from fleetwright_a2a.dialects.dialect import Operation
from fleetwright_a2a.http.edge import BodyLimit, OriginCheck
from fleetwright_a2a.http.rate_limits import RateLimit
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.server.approvals.access import OperatorAccess
from fleetwright_agent.server.approvals.routes import approval_routes
from fleetwright_agent.server.card import card_routes
from fleetwright_agent.server.extensions import spoken
from fleetwright_agent.server.routes import routes


def asgi_app(dependencies: Dependencies, *, admission: Admission) -> ASGIApp:
    """Return the app. `admission` returns the reason why an operation cannot run at the moment, or None."""
    parts = dependencies.turn
    config, failures = parts.config, parts.metrics.auth_failures
    calls = routes(
        dependencies.request_handler,
        config.dialects,
        tasks=dependencies.active_tasks,
        admission=admission,
        spoken=spoken(config, foreign=dependencies.has_custom_executor),
        card=dependencies.card,
        keepalive=dependencies.keepalive_seconds,
    )
    # Every endpoint handles its own errors; the server answers and logs any other exception.
    # A redirect to a path without its slash would name the pod's own address.
    served = [*calls, *card_routes(dependencies.card), *dependencies.admin.routes]
    app: ASGIApp = Router(routes=served, redirect_slashes=False)
    app = BodyLimit(app, limit=config.limits.max_request_bytes)
    approvals = approval_routes(
        dependencies.open_approvals,
        dependencies.decision_acceptor,
        unavailable=lambda: admission(Operation.SEND),
    )
    # The operator is outside the rate limit, because its requests follow those of all callers.
    operator = BodyLimit(Router(routes=approvals, redirect_slashes=False))
    if per_minute := config.limits.max_requests_per_minute:
        app = RateLimit(app, per_minute=per_minute, clock=parts.clock)
    app = AuthenticationMiddleware(
        OperatorAccess(app, operator=operator),
        identity=dependencies.identity,
        on_failure=lambda reason: failures.labels(reason).inc(),
    )
    return OriginCheck(app, allowed=config.allowed_origins)
