"""A gateway over real sockets, small A2A agents behind it, and a client in front."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import yarl
from aiohttp import web
from tests.support.gateway.fleet_api import NOW, FleetApi
from tests.support.http_server import serve_config

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.http.server_config import http_config
from fleetwright_gateway.app import GatewayParts, build_gateway
from fleetwright_gateway.settings import GatewaySettings
from fleetwright_gateway.wake.waker import IsReady

URL = "http://fleetwright-gateway.system"
CARD = {
    "name": "callee",
    "description": "Adds numbers.",
    "version": "0.1.0",
    "url": "http://callee.team.svc.cluster.local/a2a",
    "supportedInterfaces": [
        {"url": "http://callee.team.svc.cluster.local/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "capabilities": {"streaming": True},
    "skills": [{"id": "sum", "name": "Sum", "description": "Adds numbers.", "tags": ["math"]}],
    "signatures": [{"protected": "e30", "signature": "AA"}],
}


@dataclass
class Received:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Upstream:
    """A small A2A agent that answers as a test says."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answer: Callable[[web.Request], Any] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after each complete answer."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.received.append(Received(request.method, request.raw_path, dict(request.headers), body))
        if self.answer is not None:
            response: web.StreamResponse = await self.answer(request)
            self.ended.set()
            return response
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {"seen": len(self.received)}})


@dataclass
class Client:
    """Calls the gateway over a real socket."""

    session: aiohttp.ClientSession
    base: str
    gateway: GatewayParts

    def request(
        self, method: str, path: str, *, token: str = "", headers: dict[str, str] | None = None, **more: Any
    ) -> Any:
        url = yarl.URL(f"{self.base}{path}", encoded=True)
        credential = {"Authorization": f"Bearer {token}"} if token else {}
        return self.session.request(method, url, headers={**credential, **(headers or {})}, **more)

    async def status(self, method: str, path: str, **more: Any) -> int:
        async with self.request(method, path, **more) as answer:
            await answer.read()
            return int(answer.status)


@asynccontextmanager
async def running(
    api: FleetApi,
    settings: GatewaySettings,
    *,
    filled: bool = True,
    clock: Clock | None = None,
    is_ready: IsReady | None = None,
) -> AsyncIterator[Client]:
    clock = clock or Clock(now_ns=lambda: int(NOW * 1e9))
    async with build_gateway(api, settings, clock=clock, is_ready=is_ready) as gateway:
        if filled:
            assert await gateway.synchroniser.fill()
            informer = gateway.synchroniser.informer
            views = {
                "ReplicaSet": "ReplicaSetMetadata",
                "Deployment": "DeploymentMetadata",
                "Namespace": "NamespaceMetadata",
            }
            api.listeners.append(lambda event, kind, body: informer.event(views.get(kind, kind), event, body))
        async with (
            serve_config(http_config(gateway.traffic, drain_seconds=1)) as server,
            aiohttp.ClientSession() as session,
        ):
            yield Client(session, f"http://127.0.0.1:{server.port}", gateway)
