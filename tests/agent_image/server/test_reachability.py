"""Reachability: the agent detects unreachable MCP servers, and their recovery."""

import asyncio
import socket

import pytest
from tests.support.waiting import within

from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.server.ops.reachability import Reachability


def _server(name):
    return McpServer.model_validate({"name": name, "url": f"http://{name}:8000/mcp"})


class _Looks:
    """A check that returns the next scripted result for a server, and ends the watch after the last."""

    def __init__(self, *script):
        self._script = list(script)
        self.seen = []
        self.watched = None

    async def connect(self, host, port):
        error = self._script[0].get(host)
        if error is not None:
            raise error

    async def sleep(self, seconds):
        self.seen.append(({look.name: look.message for look in self.watched.report if not look.reachable}, seconds))
        self._script.pop(0)
        if not self._script:
            raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param(TimeoutError(), "no connection within 5 s", id="silence"),
        pytest.param(socket.gaierror(), "its host name is not known", id="an unknown name"),
        pytest.param(ConnectionRefusedError(), "connection refused", id="a closed port"),
        pytest.param(
            PermissionError(), "its name leads to an address that agents may not reach", id="a name that leads astray"
        ),
    ],
)
async def test_reachability_names_unreachable_servers_and_polls_faster(error, reason):
    looks = _Looks({"orders": error}, {})
    looks.watched = Reachability([_server("orders"), _server("units")], connect=looks.connect, sleep=looks.sleep)
    with pytest.raises(asyncio.CancelledError):
        await looks.watched.watch()
    assert looks.seen == [({"orders": reason}, 10.0), ({}, 60.0)]


async def test_reachability_of_a_proxied_server_is_that_of_its_proxy():
    proxied = McpServer.model_validate(
        {"name": "far", "url": "https://far.example/mcp", "proxyUrl": "http://proxy.example:3128"}
    )
    looks = _Looks({"proxy.example": ConnectionRefusedError()}, {"far.example": ConnectionRefusedError()})
    looks.watched = Reachability([proxied], connect=looks.connect, sleep=looks.sleep)
    with pytest.raises(asyncio.CancelledError):
        await looks.watched.watch()
    assert looks.seen == [({"far": "its proxy: connection refused"}, 10.0), ({}, 60.0)]


async def test_reachability_without_servers_returns():
    async with within("a watch of no hosts ends"):
        await Reachability([]).watch()
