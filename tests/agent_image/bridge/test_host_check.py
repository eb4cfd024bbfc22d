"""Which requests the bridge refuses because of their `Host` and `Origin`, as MCP requires."""

import http.client
import json
import sys
from collections.abc import Iterator

import pytest
from e2e.cluster.ports import free_port
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from tests.support.agent.fork_server import ForkServer
from tests.support.machine import ceiling
from tests.support.waiting import is_listening, wait_until

from fleetwright_agent.commands.bridge.host_check import HostCheck

SERVER = "from mcp.server.fastmcp import FastMCP; FastMCP('tools').run()"
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS})
NAME = "tools-mcp.team.svc.cluster.local"


@pytest.fixture(scope="module")
def bridge(fork_server: ForkServer) -> Iterator[int]:
    """The port of a bridge on the loopback address, as `fleetwright dev` starts it."""
    port = free_port()
    process = fork_server.start(
        ["bridge", "--host", "127.0.0.1", "--port", str(port), "--", sys.executable, "-c", SERVER]
    )
    try:
        wait_until(lambda: is_listening(process, port), "the bridge listens")
        yield port
    finally:
        process.kill()
        process.wait_blocking()


LOCAL_REQUESTS = [
    ({"Host": "127.0.0.1:{port}"}, 200),
    ({"Host": "localhost:{port}"}, 200),
    ({"Host": "LOCALHOST"}, 200),
    ({"Host": "[::1]:{port}"}, 200),
    ({"Host": "localhost:{port}", "Origin": "http://localhost:{port}"}, 200),
    ({"Host": "localhost:{port}", "Origin": "http://localhost:1"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "http://evil.example"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": "null"}, 403),
    ({"Host": "127.0.0.1:{port}", "Origin": ""}, 403),
    ({"Host": "evil.example"}, 403),
    ({"Host": "evil.example:{port}", "Origin": "http://evil.example:{port}"}, 403),
    ({"Host": "localhost.evil.example"}, 403),
    ({"Host": "192.0.2.7"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), LOCAL_REQUESTS)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_local_bridge_serves_local_programs_only(
    bridge: int, headers: dict[str, str], status: int, method: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", bridge, timeout=ceiling())
    sent = {name: value.format(port=bridge) for name, value in headers.items()}
    typed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    connection.request(method, "/mcp", body=INITIALIZE if method == "POST" else None, headers={**typed, **sent})
    found = connection.getresponse().status
    connection.close()
    # The other methods need a session, so only the refusal has a fixed status.
    assert found == status if method == "POST" else (found == 403) is (status == 403)


POD_REQUESTS = [
    (NAME, NAME, 200),
    (NAME, f"{NAME}:8000", 200),
    (NAME, f"{NAME}.", 200),
    (NAME, "tools-mcp.team.svc:8000", 200),
    (NAME, "tools-mcp.team", 200),
    (NAME, "tools-mcp", 200),
    (NAME, "TOOLS-MCP.Team", 200),
    (NAME, "10.0.0.7:8000", 200),
    (NAME, "[fd00::7]:8000", 200),
    (NAME, "localhost:8000", 200),
    (NAME, "tools", 403),
    (NAME, "other-mcp.team.svc.cluster.local", 403),
    (NAME, "evil.example", 403),
    (NAME, f"{NAME}.evil.example", 403),
    (NAME, "tools-mcp@evil.example", 403),
    ("", "evil.example", 200),
]


NAMELESS_REQUESTS = [
    pytest.param("", "", [], 200, id="a bridge without a name accepts every Host, so also none"),
    pytest.param("", "", ["http://evil.example"], 403, id="but no web page"),
    pytest.param(NAME, "", [], 403, id="a bridge that knows its names wants one"),
    pytest.param("", "127.0.0.1", [], 403, id="and so does one for local programs"),
]


@pytest.mark.parametrize(("name", "listens_on", "origins", "status"), NAMELESS_REQUESTS)
async def test_bridge_decides_about_http_1_0_requests_without_a_host(
    name: str, listens_on: str, origins: list[str], status: int
) -> None:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse("ok")(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    sent: list[Message] = []
    headers = [(b"origin", origin.encode()) for origin in origins]
    scope = {"type": "http", "method": "GET", "path": "/mcp", "http_version": "1.0", "headers": headers}
    await HostCheck(answer, listens_on=listens_on, name=name)(scope, receive, send)
    assert sent[0]["status"] == status


@pytest.mark.parametrize(("name", "host", "status"), POD_REQUESTS)
@pytest.mark.parametrize("listens_on", ["", "::", "0.0.0.0"])
def test_bridge_in_a_pod_knows_the_names_of_its_service(name: str, host: str, status: int, listens_on: str) -> None:
    async def answer(scope, receive, send):
        await PlainTextResponse("ok")(scope, receive, send)

    app = HostCheck(answer, listens_on=listens_on, name=name)
    client = TestClient(Starlette(routes=[Route("/mcp", app)]))
    assert client.get("/mcp", headers={"Host": host}).status_code == status
    assert client.get("/mcp", headers={"Host": host, "Origin": "http://evil.test"}).status_code == 403
