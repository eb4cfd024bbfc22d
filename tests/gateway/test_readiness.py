"""The readiness probe of the gateway: which answers show that the pod of an agent is ready."""

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fleetwright_gateway.cluster.fleet import Pod
from fleetwright_gateway.wake.readiness import ReadinessProbe

UID = "uid-of-the-agent"


@pytest.fixture
async def answering(process_ring: None) -> AsyncIterator[Callable[..., object]]:
    """Return a function that starts a pod, which answers probes with this status and these headers."""
    servers: list[TestServer] = []

    async def start(status: int, headers: dict[str, str]) -> Pod:
        async def readyz(_: web.Request) -> web.Response:
            return web.Response(status=status, headers=headers)

        app = web.Application()
        app.router.add_get("/readyz", readyz)
        servers.append(TestServer(app))
        await servers[-1].start_server()
        return Pod(name="p", uid="p", ip="127.0.0.1", ready=False, ports={"ops": servers[-1].port or 0})

    yield start
    for server in servers:
        await server.close()


@pytest.mark.parametrize(
    ("status", "headers", "ready"),
    [
        pytest.param(200, {"Fleetwright-Agent-Uid": UID}, True, id="the agent"),
        pytest.param(200, {}, True, id="an image that sends no uid"),
        pytest.param(200, {"Fleetwright-Agent-Uid": "another"}, False, id="another agent that got the address"),
        pytest.param(503, {"Fleetwright-Agent-Uid": UID}, False, id="an agent that is not ready"),
        pytest.param(302, {"Location": "/elsewhere"}, False, id="a redirect"),
    ],
)
async def test_probe_finds_the_ready_agent_only(answering, status, headers, ready):
    probe = ReadinessProbe(port=1)
    try:
        assert await probe.is_ready(await answering(status, headers), UID) is ready
    finally:
        await probe.aclose()
