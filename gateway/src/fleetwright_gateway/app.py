"""The composition root: the only place that builds the parts of the gateway and connects them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.edge import OriginCheck
from fleetwright_gateway.access.access_reviewer import AccessReviewer
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_gateway.exchange.endpoint import PATH, ExchangeEndpoint
from fleetwright_gateway.http.addresses import Addresses
from fleetwright_gateway.http.admission import RequestAdmission
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.http.client_sources import ClientSources
from fleetwright_gateway.http.rate_limits import RateLimits
from fleetwright_gateway.identity.authenticator import Authenticator
from fleetwright_gateway.identity.token_reviewer import TokenReviewer
from fleetwright_gateway.identity.token_shape import issuer_of
from fleetwright_gateway.process.ops import ops_app
from fleetwright_gateway.proxy.agent_proxy import AgentProxy
from fleetwright_gateway.proxy.budget_check import BudgetCheck
from fleetwright_gateway.proxy.forwarder import Forwarder
from fleetwright_gateway.proxy.paths import is_proxied
from fleetwright_gateway.proxy.redirects import Redirects
from fleetwright_gateway.proxy.translation.delivery import DeliverySelector
from fleetwright_gateway.registry.application import registry_app
from fleetwright_gateway.settings import GatewaySettings
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.tokens.call_chain import CallChains
from fleetwright_gateway.tokens.key_ring import KeyRing
from fleetwright_gateway.tokens.pair_tokens import PairTokenIssuer
from fleetwright_gateway.wake.holds import Holds
from fleetwright_gateway.wake.readiness import ReadinessProbe
from fleetwright_gateway.wake.waker import IsReady, Waker
from fleetwright_kube.port import Api
from fleetwright_kube.token_audiences import api_audiences


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    traffic: ASGIApp
    ops: ASGIApp
    fleet: Fleet
    synchroniser: Synchroniser
    metrics: GatewayMetrics


class _Front:
    """The ASGI application of the traffic port: the proxy, the token exchange, and FastAPI for everything else."""

    def __init__(self, proxy: ASGIApp, exchange: ASGIApp, registry: ASGIApp) -> None:
        self._proxy = proxy
        self._exchange = exchange
        self._registry = registry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._exchange if scope["path"] == PATH else self._registry
        app = self._proxy if is_proxied(scope["raw_path"]) else app
        await app(scope, receive, send)


@asynccontextmanager
async def build_gateway(
    api: Api, settings: GatewaySettings, *, clock: Clock | None = None, is_ready: IsReady | None = None
) -> AsyncIterator[GatewayParts]:
    """Build the gateway, and close its connections at the end. Nothing is listed yet.

    Args:
        api: The Kubernetes API.
        settings: The settings of the installation.
        clock: A clock for tests.
        is_ready: Asks a pod whether it is ready; a request to its operations port unless a test replaces it.
    """
    clock = clock or Clock()
    metrics = GatewayMetrics(CollectorRegistry())
    fleet = Fleet()
    metrics.agents.set_function(lambda: len(fleet.agents))
    synchroniser = Synchroniser(api, fleet, namespaces=settings.namespaces, resync_seconds=settings.resync_seconds)
    audiences, issuers = _accepted(settings)
    reviewer = TokenReviewer(api, audiences=audiences, clock=clock)
    authenticator = Authenticator(reviewer, fleet, audiences=audiences, issuers=issuers, clock=clock)
    admission = RequestAdmission(
        authenticator,
        RateLimits(per_minute=settings.requests_per_minute, clock=clock),
        sources=ClientSources(settings.proxy_cidrs),
        problem=lambda: synchroniser.problem,
        metrics=metrics,
    )
    visibility = Visibility(fleet, AccessReviewer(api, clock=clock))
    tokens = PairTokenIssuer(KeyRing(settings.keys_file), issuer=settings.url, clock=clock)
    probe = ReadinessProbe(port=settings.agent_ops_port)
    forwarder = Forwarder(connect_seconds=settings.connect_seconds)
    waker = Waker(
        api,
        fleet,
        Holds(clock),
        is_ready=is_ready or probe.is_ready,
        clock=clock,
        metrics=metrics,
        seconds=settings.wake_seconds,
    )
    addresses = Addresses(inside=settings.url, outside=settings.outside_url)
    cards = CardResponses(fleet, addresses)
    chains = CallChains(tokens.ring, issuer=settings.url, now=clock.now)
    proxy = AgentProxy(
        admission=admission,
        visibility=visibility,
        budgets=BudgetCheck(clock, refuse_unreported=settings.refuse_unreported_budgets),
        chains=chains,
        tokens=tokens,
        waker=waker,
        cards=cards,
        redirects=Redirects(fleet, addresses),
        deliveries=DeliverySelector(
            fleet, forwarder, cards, clock=clock, on_cut=metrics.proxy_failures.labels("aborted").inc
        ),
        metrics=metrics,
        agent_port=settings.agent_port,
        idle_seconds=settings.idle_seconds,
    )
    registry = registry_app(
        fleet=fleet,
        visibility=visibility,
        admission=admission,
        cards=cards,
        ring=tokens.ring,
        metrics=metrics,
        publisher=settings.publisher_domain,
        addresses=addresses,
    )
    exchange = ExchangeEndpoint(
        admission=admission,
        visibility=visibility,
        fleet=fleet,
        chains=chains,
        tokens=tokens,
        addresses=addresses,
        metrics=metrics,
        clock=clock,
    )
    ops = ops_app(metrics.registry, not_ready=lambda: synchroniser.problem or tokens.ring.problem(clock.now()))
    try:
        yield GatewayParts(
            traffic=OriginCheck(_Front(proxy, exchange, registry), allowed=settings.origins),
            ops=ops,
            fleet=fleet,
            synchroniser=synchroniser,
            metrics=metrics,
        )
    finally:
        await forwarder.aclose()
        await probe.aclose()


@asynccontextmanager
async def following(
    synchroniser: Synchroniser, *, on_filled: Callable[[], None] = lambda: None
) -> AsyncIterator["asyncio.Task[None]"]:
    """Follow the cluster until the context exits. `on_filled` is called once, when the cache is full."""
    task = asyncio.create_task(synchroniser.run(on_filled=on_filled))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _accepted(settings: GatewaySettings) -> tuple[frozenset[str], frozenset[str]]:
    """Return the accepted audiences and issuers. The API server's are read from the gateway's own token."""
    try:
        own = (settings.service_account / "token").read_text(encoding="ascii").strip()
    except OSError:
        own = ""
    audiences = api_audiences(own) if settings.accept_api_server_tokens else frozenset()
    issuer = issuer_of(own)
    # Without the API server's own issuer, the list would refuse its tokens.
    issuers = {issuer, *settings.issuers} if issuer else set()
    return audiences | {settings.audience}, frozenset(issuers)
