"""A gateway over real sockets, with an in-memory cluster and small A2A agents behind it."""

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from joserfc.jwk import ECKey
from tests.support.gateway.fleet_api import ISSUER, NOW, FleetApi, token_text
from tests.support.gateway.served_gateway import CARD, URL, Client, Upstream, running

from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.settings import GatewaySettings


@pytest.fixture
def api() -> FleetApi:
    return FleetApi()


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A key ring with one key that signs and one that does not sign yet."""
    path = tmp_path / "ring.json"
    current = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    following = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    ring = [{**following, "iat": NOW}, {**current, "iat": NOW - 86400}]
    path.write_text(json.dumps({"keys": ring}))
    return path


@pytest.fixture
async def upstream(process_ring: None) -> AsyncIterator[Upstream]:
    agent = Upstream()
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", agent.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    listener = listen(0, host="127.0.0.1")
    agent.port = listener.getsockname()[1]
    await web.SockSite(runner, listener).start()
    yield agent
    await runner.cleanup()


@pytest.fixture
def settings(keys: Path, upstream: Upstream, tmp_path: Path) -> GatewaySettings:
    (tmp_path / "token").write_text(token_text("gateway", audience=ISSUER))
    return GatewaySettings(
        url=URL,
        public_url="https://agents.example.com",
        keys_file=keys,
        service_account=tmp_path,
        agent_port=upstream.port,
        agent_ops_port=upstream.port,
    )


@pytest.fixture
async def client(api: FleetApi, settings: GatewaySettings, process_ring: None) -> AsyncIterator[Client]:
    """A gateway whose cluster has the agents `caller` and `callee`, which may call each other, and `hidden`."""
    reach = {"fleet": {"reach": "Direct"}}
    api.add_running_agent("caller", spec=reach)
    api.add_running_agent("callee", spec=reach)
    api.add_running_agent("hidden")
    for name in ("caller", "callee", "hidden"):
        api.add_card(name, {**CARD, "name": name})
    logging.getLogger("fleetwright_gateway").setLevel(logging.WARNING)
    async with running(api, settings) as found:
        yield found
