"""Raw HTTP requests at the port of a bridge, as the operator starts it. The POSTs are pings to a stdio server."""

import http.client
import json
import os
import sys
from collections.abc import Iterator

import pytest
from e2e.cluster.ports import free_port
from tests.support.agent.fork_server import ForkServer
from tests.support.http.raw_requests import (
    LARGE_BODIES,
    TestedPort,
    find_differences,
    read_requests,
    send_endless_body,
)
from tests.support.machine import ceiling
from tests.support.waiting import is_listening, wait_until

from fleetwright_agent.commands.bridge.host_check import HOST_VARIABLE

REQUESTS = read_requests()
SERVER = "from mcp.server.fastmcp import FastMCP; FastMCP('tools').run()"
ACCEPTED = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
PING = json.dumps({"jsonrpc": "2.0", "id": 7654321, "method": "ping"})


HOST = "x"
FOREIGN_HOSTS = {
    "a Host with dots and dashes": [403],
    "a Host with an underscore": [403],
    "HTTP/1.0 without a Host": [403],
}
"""The bridge knows its names, and refuses all others against DNS rebinding. The other ports need no check of names,
because they require a credential, or serve nothing that a web page may not read."""


@pytest.fixture(scope="module")
def bridge_port(fork_server: ForkServer) -> Iterator[TestedPort]:
    """A bridge with the name that the requests have as `Host`, and a session for the POSTs."""
    port = free_port()
    words = ["bridge", "--port", str(port), "--", sys.executable, "-c", SERVER]
    process = fork_server.start(words, environment={**os.environ, HOST_VARIABLE: HOST})
    try:
        wait_until(lambda: is_listening(process, port), "the bridge listens")
        yield TestedPort(
            port=port,
            get="/mcp",
            get_status=406,  # A GET without `Accept: text/event-stream`.
            head_status=405,
            post="/mcp",
            json_status=400,  # MCP rejects a body that is no message with a status of HTTP.
            token="x",  # The bridge reads no credential; its network policy admits the callers.
            post_text=b"7654321",
            post_headers=f"Accept: {ACCEPTED['Accept']}\r\nMcp-Session-Id: {open_session(port)}\r\n",
            body=PING,
            exceptions=FOREIGN_HOSTS,
        )
    finally:
        process.kill()
        process.wait_blocking()


def open_session(port: int) -> str:
    """Return the id of an initialized session."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ceiling())
    headers = dict(ACCEPTED)
    for message in (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ):
        connection.request("POST", "/mcp", body=json.dumps(message), headers=headers)
        answer = connection.getresponse()
        answer.read()
        headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    connection.close()
    return headers["Mcp-Session-Id"]


def test_exceptions_of_the_bridge_name_requests_of_the_file() -> None:
    assert FOREIGN_HOSTS.keys() <= {request.name for requests in REQUESTS.values() for request in requests}


@pytest.mark.parametrize("group", [each for each in REQUESTS if each != LARGE_BODIES])
async def test_bridge_answers_raw_requests(bridge_port: TestedPort, group: str) -> None:
    assert await find_differences(bridge_port, REQUESTS[group]) == {}


async def test_bridge_closes_the_connection_of_an_endless_body(bridge_port: TestedPort) -> None:
    assert await send_endless_body(bridge_port)
