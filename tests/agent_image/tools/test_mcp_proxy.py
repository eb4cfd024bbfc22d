"""MCP servers behind an HTTP proxy: what the proxy and the server get, with real servers of the MCP SDK."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent.fork_server import ForkServer
from tests.support.agent.mcp_tools import ToolServer, serve_tools
from tests.support.certificates import certify_loopback
from tests.support.http.relay import run_relay

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.mcp.wire import McpUnreachable
from fleetwright_agent.tools.port import ToolCall, ToolError

pytestmark = pytest.mark.process

CALL = ToolCall({}, TurnRequest("o", "c", "t", "x"), lambda _: None)
AUTHORITY, HEADER = "secrets/tools/ca.crt", "secrets/tools/token"
HEADERS = [{"name": "Authorization", "valueFile": HEADER}]


def mount(root: Path, name: str, content: bytes) -> None:
    path = Layout(root=root).secret(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@asynccontextmanager
async def connected(root: Path, **entry: Any) -> AsyncIterator[McpConnection]:
    server = McpServer.model_validate({"name": "s", **entry})
    connection = McpConnection(server, Layout(root=root), pauses=(0,))
    try:
        yield connection
    finally:
        await connection.aclose()


@pytest.fixture
async def tls_port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of an MCP server with TLS, whose authority and credential are mounted."""
    context, authority = certify_loopback(tmp_path)
    mount(tmp_path, AUTHORITY, authority)
    mount(tmp_path, HEADER, b"Bearer secret")
    async with serve_tools(ToolServer("add")) as port, run_relay(port, context) as server:
        yield server.port


async def run_probe(
    fork_server: ForkServer, entry: dict[str, str], *, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command that the probes of the operator run, and return its output."""
    words = ["probe", "mcp", "--patience", "0", "--denied", "9.9.9.0/24", json.dumps({"name": "s", **entry})]
    return await asyncio.to_thread(fork_server.run, *words, environment=environment)


async def run_tool(connection: McpConnection) -> str:
    (tool,) = await connection.tools()
    return await tool.run(CALL)


async def test_mcp_proxy_tunnels_tls_and_sees_no_credential(tmp_path: Path, tls_port: int) -> None:
    async with run_relay() as proxy:
        entry = {
            "url": f"https://127.0.0.1:{tls_port}/mcp/",
            "proxyUrl": f"http://127.0.0.1:{proxy.port}",
            "caFile": AUTHORITY,
            "headers": HEADERS,
        }
        async with connected(tmp_path, **entry) as connection:
            assert await run_tool(connection) == "from add"
    assert proxy.heard.startswith(b"CONNECT 127.0.0.1:%d " % tls_port)
    assert b"secret" not in proxy.heard


async def test_mcp_proxy_with_tls_is_verified_by_the_authority_of_the_server(tmp_path: Path) -> None:
    context, authority = certify_loopback(tmp_path)
    mount(tmp_path, AUTHORITY, authority)
    async with (
        serve_tools(ToolServer("add")) as port,
        run_relay(port, context) as server,
        run_relay(context=context) as proxy,
    ):
        entry = {"url": f"https://127.0.0.1:{server.port}/mcp/", "proxyUrl": f"https://127.0.0.1:{proxy.port}"}
        async with connected(tmp_path, **entry, caFile=AUTHORITY) as connection:
            assert await run_tool(connection) == "from add"
        async with connected(tmp_path, **entry) as connection:
            with pytest.raises(McpUnreachable, match="shows a certificate that is not trusted"):
                await connection.tools()


async def test_mcp_proxy_carries_plain_http(tmp_path: Path) -> None:
    async with serve_tools(ToolServer("add")) as port, run_relay() as proxy:
        entry = {"url": f"http://127.0.0.1:{port}/mcp/", "proxyUrl": f"http://127.0.0.1:{proxy.port}/"}
        async with connected(tmp_path, **entry) as connection:
            assert await run_tool(connection) == "from add"
    assert proxy.heard.startswith(b"POST http://127.0.0.1:%d/mcp/ " % port)


async def test_mcp_proxy_resolves_the_name_of_the_server(tmp_path: Path) -> None:
    """The agent itself may not be able to resolve a name outside of its cluster."""
    async with serve_tools(ToolServer("add")) as port, run_relay() as proxy:
        entry = {"url": f"http://tools.invalid:{port}/mcp/", "proxyUrl": f"http://127.0.0.1:{proxy.port}"}
        async with connected(tmp_path, **entry) as connection:
            assert await run_tool(connection) == "from add"


async def test_mcp_proxy_of_the_environment_is_not_used(fork_server: ForkServer) -> None:
    variables = dict.fromkeys(("HTTP_PROXY", "http_proxy", "ALL_PROXY"), "http://127.0.0.1:1")
    async with serve_tools(ToolServer("add")) as port:
        entry = {"url": f"http://127.0.0.1:{port}/mcp/"}
        ended = await run_probe(fork_server, entry, environment={**os.environ, **variables})
    assert [tool["name"] for tool in json.loads(ended.stdout)["tools"]] == ["add"]


REFUSALS = [
    pytest.param("https", b"403 Do as I say", "cannot be reached: its proxy answers 403", id="a refused tunnel"),
    pytest.param("https", b"502 Bad Gateway", "cannot be reached: its proxy answers 502", id="an unknown server"),
    pytest.param("http", b"407 Read", "answers 407 Proxy Authentication Required", id="a refused request"),
]


@pytest.mark.parametrize(("scheme", "refusal", "says"), REFUSALS)
async def test_mcp_proxy_that_refuses_is_named_without_its_words(
    tmp_path: Path, scheme: str, refusal: bytes, says: str
) -> None:
    async with run_relay() as proxy:
        proxy.refusal = refusal
        entry = {"url": f"{scheme}://tools.invalid/mcp", "proxyUrl": f"http://127.0.0.1:{proxy.port}"}
        async with connected(tmp_path, **entry) as connection:
            with pytest.raises(McpUnreachable) as failed:
                await connection.tools()
    assert str(failed.value) == says


async def test_mcp_call_that_the_proxy_refuses_has_not_arrived(tmp_path: Path, tls_port: int) -> None:
    async with run_relay() as proxy:
        entry = {
            "url": f"https://127.0.0.1:{tls_port}/mcp/",
            "proxyUrl": f"http://127.0.0.1:{proxy.port}",
            "caFile": AUTHORITY,
        }
        async with connected(tmp_path, **entry) as connection:
            (tool,) = await connection.tools()
            await connection.aclose()
            proxy.refusal = b"503 Service Unavailable"
            with pytest.raises(ToolError) as failed:
                await tool.run(CALL)
    assert str(failed.value) == "the server s cannot be reached: its proxy answers 503"


UNREACHABLE = [
    pytest.param(
        {"url": "https://tools.invalid/mcp", "proxyUrl": "http://127.0.0.1:1"},
        75,
        "cannot be reached through its proxy",
        id="a proxy that does not listen",
    ),
    pytest.param(
        {"url": "https://tools.invalid/mcp", "proxyUrl": "http://9.9.9.9:3128"},
        75,
        "leads to an address that agents may not reach, or its proxy does",
        id="a proxy in a denied range",
    ),
    pytest.param(
        {"url": "https://9.9.9.9/mcp", "proxyUrl": "http://127.0.0.1:{proxy}"},
        75,
        "leads to an address that agents may not reach, or its proxy does",
        id="a server in a denied range",
    ),
    pytest.param(
        {"url": "https://tools.invalid/mcp", "proxyUrl": "http://u:p@127.0.0.1:{proxy}"},
        2,
        "has a proxy that cannot be called: it must not contain a user or password",
        id="a proxy with a password",
    ),
    pytest.param(
        {"url": "https://tools.invalid/mcp", "proxyUrl": "socks5://127.0.0.1:{proxy}"},
        2,
        "has a proxy that cannot be called: it must begin with https:// or http://",
        id="a proxy of another protocol",
    ),
    pytest.param(
        {
            "url": "http://tools.invalid/mcp",
            "proxyUrl": "http://127.0.0.1:{proxy}",
            "headers": [{"name": "X-Key", "valueFile": "secrets/tools/key"}],
        },
        2,
        "must have an https address: a proxy would read the headers of its Secrets",
        id="a proxy that would read a secret",
    ),
]


@pytest.mark.parametrize(("entry", "code", "says"), UNREACHABLE)
async def test_probe_of_a_server_behind_an_unusable_proxy_says_why(
    fork_server: ForkServer, entry: dict[str, Any], code: int, says: str
) -> None:
    async with run_relay() as proxy:
        described = {**entry, "proxyUrl": entry["proxyUrl"].format(proxy=proxy.port)}
        ended = await run_probe(fork_server, described)
    assert ended.returncode == code
    assert says in ended.stderr.splitlines()[-1]
    assert proxy.heard == b""
