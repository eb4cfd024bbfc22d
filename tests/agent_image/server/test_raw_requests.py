"""Raw HTTP requests at the A2A port and at the operations port of an agent."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.http.raw_requests import (
    LARGE_BODIES,
    TestedPort,
    find_differences,
    read_requests,
    send_endless_body,
)
from tests.support.http_server import serve_config

from fleetwright_a2a.http.server_config import http_config

Open = Callable[..., Any]
REQUESTS = read_requests()
CALL = json.dumps({"jsonrpc": "2.0", "id": 7654321, "method": "GetTask", "params": {"id": "x"}})


@pytest.fixture
async def a2a_port(open_door: Open, mounted: Any, documents: Any) -> TestedPort:
    mounted.write(mounted.layout.config_file, documents(limits={"maxRequestsPerMinute": 100_000}))
    door = await open_door()
    return TestedPort(
        port=int(door.url.rpartition(":")[2]),
        get="/.well-known/agent-card.json",
        post="/a2a",
        token="token-of-default",
        post_text=b"7654321",
        body=CALL,
    )


@pytest.fixture
async def ops_port(open_door: Open) -> AsyncIterator[TestedPort]:
    door = await open_door()
    async with serve_config(http_config(door.app.ops, drain_seconds=1)) as server:
        yield TestedPort(port=server.port, get="/healthz", post="/healthz", token="x", post_status=405, body=CALL)


@pytest.mark.parametrize("group", REQUESTS)
async def test_a2a_port_answers_raw_requests(a2a_port: TestedPort, group: str) -> None:
    assert await find_differences(a2a_port, REQUESTS[group]) == {}


@pytest.mark.parametrize("group", [each for each in REQUESTS if each != LARGE_BODIES])
async def test_operations_port_answers_raw_requests(ops_port: TestedPort, group: str) -> None:
    assert await find_differences(ops_port, REQUESTS[group]) == {}


async def test_a2a_port_closes_the_connection_of_an_endless_body(a2a_port: TestedPort) -> None:
    assert await send_endless_body(a2a_port)


async def test_operations_port_closes_the_connection_of_an_endless_body(ops_port: TestedPort) -> None:
    assert await send_endless_body(ops_port)
