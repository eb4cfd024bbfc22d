"""Third-party MCP servers: through the bridge, over their own HTTP, and over the older transport."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from e2e.cluster.ports import free_port

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.port import ToolCall, ToolError

pytestmark = pytest.mark.starts_first

AGENT = (sys.executable, "-m", "fleetwright_agent")
BRIDGE = (*AGENT, "bridge", "--host", "127.0.0.1", "--port", "$(PORT)")
REQUEST = TurnRequest("o", "c", "t", "x")


@asynccontextmanager
async def connected(port, *, path="/mcp", **server):
    url = f"http://127.0.0.1:{port}{path}"
    config = McpServer.model_validate({"name": "s", "url": url, **server})
    # The start of a foreign server takes long on a busy machine.
    connection = McpConnection(config, Layout(), discovery_seconds=200)
    try:
        yield connection
    finally:
        await connection.aclose()


async def call(connection, name, **arguments):
    tools = {tool.name: tool for tool in await connection.tools()}
    return await tools[f"s__{name}"].run(ToolCall(arguments, REQUEST, lambda _: None))


def probe(port, *, path="/mcp", transport="StreamableHTTP"):
    server = {"name": "s", "url": f"http://127.0.0.1:{port}{path}", "transport": transport}
    command = [*AGENT, "probe", "mcp", json.dumps(server)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


async def test_bridge_serves_the_time_server(start, python_servers):
    _, port = start(*BRIDGE, "--", str(python_servers / "mcp-server-time"), "--local-timezone", "UTC")
    async with connected(port) as connection:
        zones = {"source_timezone": "Europe/Berlin", "target_timezone": "Asia/Tokyo", "time": "12:00"}
        assert "19:00" in await call(connection, "convert_time", **zones) or "20:00" in await call(
            connection, "convert_time", **zones
        )
        with pytest.raises(ToolError, match=r"(?i)timezone"):
            await call(connection, "get_current_time", timezone="Nowhere/At_All")
    report = probe(port)
    assert [tool["name"] for tool in report["tools"]] == ["convert_time", "get_current_time"]
    assert report["serverInfo"]["name"] == "mcp-time"
    assert all(tool["digest"].startswith("sha256:") for tool in report["tools"])


async def test_bridge_serves_the_git_server(start, python_servers, tmp_path):
    commands = (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.com"),
        ("config", "user.name", "A"),
        ("commit", "-q", "--allow-empty", "-m", "The first of all"),
    )
    for words in commands:
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    _, port = start(*BRIDGE, "--", str(python_servers / "mcp-server-git"), "--repository", str(tmp_path))
    async with connected(port) as connection:
        assert "The first of all" in await call(connection, "git_log", repo_path=str(tmp_path))


HTTP = [
    pytest.param(("streamableHttp",), "/mcp", "StreamableHTTP", id="over streamable HTTP of its own"),
    pytest.param(("sse",), "/sse", "SSE", id="over the older transport"),
]


@pytest.mark.parametrize(("words", "path", "transport"), HTTP)
async def test_everything_server_works_over_every_transport(start, everything, words, path, transport):
    _, port = start(*everything, *words)
    async with connected(port, path=path, transport=transport) as connection:
        assert "nine lives" in await call(connection, "echo", message="nine lives")
        slow = call(connection, "trigger-long-running-operation", duration=1, steps=5)
        fast = call(connection, "get-sum", a=2, b=40)
        answers = await asyncio.gather(slow, fast)
    assert "completed" in answers[0]
    assert "42" in answers[1]
    report = probe(port, path=path, transport=transport)
    assert {"echo", "get-sum"} <= {tool["name"] for tool in report["tools"]}


async def test_bridge_preserves_the_tools_digest(start, everything):
    _, direct = start(*everything, "streamableHttp")
    _, bridged = start(*BRIDGE, "--", *everything, "stdio")
    assert probe(direct)["toolsDigest"] == probe(bridged)["toolsDigest"]


async def test_bridge_runs_one_process_per_session_concurrently(start, python_servers):
    bridge, port = start(*BRIDGE, "--", str(python_servers / "mcp-server-time"))
    async with connected(port) as first, connected(port) as second:
        await asyncio.gather(*(call(each, "get_current_time", timezone="UTC") for each in (first, second) * 10))
        children = _children(bridge.pid)
        assert len(children) == 2
    deadline = time.monotonic() + 200
    while _children(bridge.pid) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    assert _children(bridge.pid) == [], "the process ends when its client disconnects"


async def test_bridge_fails_calls_of_a_dead_server_and_restarts_it(start, everything):
    bridge, port = start(*BRIDGE, "--", *everything, "stdio")
    async with connected(port) as connection:
        await connection.tools()
        calling = asyncio.create_task(call(connection, "trigger-long-running-operation", duration=60, steps=60))
        await asyncio.sleep(2)
        died = time.monotonic()
        for child in _children(bridge.pid):
            os.kill(child, signal.SIGKILL)
        with pytest.raises(ToolError, match="ended before it answered"):
            await calling
        took = time.monotonic() - died
        print(f"the call failed {took:.2f} s after the server's death; promised within 2 s")
        assert took < 20
        assert "again" in await _once_it_is_there(connection)


async def _once_it_is_there(connection):
    """Retry a call until it succeeds, because a call fails when its session ends."""
    async with asyncio.timeout(200):
        while True:
            with suppress(ToolError):
                return await call(connection, "echo", message="again")
            await asyncio.sleep(0.1)


async def test_bridge_shuts_down_cleanly_and_leaves_no_process(start, python_servers):
    bridge, port = start(*BRIDGE, "--", str(python_servers / "mcp-server-time"))
    async with connected(port) as connection:
        await connection.tools()
        children = _children(bridge.pid)
        bridge.terminate()
        asked = time.monotonic()
        code = await asyncio.to_thread(bridge.wait, 200)
        print(f"ended {time.monotonic() - asked:.2f} s after it was asked to; promised within 8 s")
    assert code == 0
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


async def test_bridge_refuses_sessions_beyond_its_limit(start, python_servers):
    command = (*BRIDGE, "--sessions", "1", "--", str(python_servers / "mcp-server-time"))
    _, port = start(*command)
    async with connected(port) as first:
        await first.tools()
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            headers = {"Accept": "application/json, text/event-stream"}
            answer = await client.post(f"http://127.0.0.1:{port}/mcp", json=hello, headers=headers)
        assert answer.status_code == 503
        assert "UTC" in await call(first, "get_current_time", timezone="UTC")


@pytest.mark.process
def test_bridge_reports_a_missing_program_in_one_line():
    command = [*AGENT, "bridge", "--port", "0", "--", "no-such-program"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert "'no-such-program' does not exist in this image" in ended.stderr


UNREACHABLE = [
    pytest.param({"url": "http://127.0.0.1:9/mcp"}, "the server cannot be reached", id="nobody listens"),
    pytest.param({"url": "http://x.invalid/mcp"}, "the server cannot be reached", id="no such name"),
    pytest.param({"url": 7}, "the description of the server is not valid: url", id="no description"),
]


@pytest.mark.process
async def test_mcp_probe_does_not_connect_to_denied_ranges():
    async def hear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(1)
        writer.close()

    heard: list[int] = []
    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        entry = json.dumps({"name": "s", "url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"})
        command = [
            *AGENT,
            "probe",
            "mcp",
            "--patience",
            "0",
            "--denied",
            "127.0.0.0/8",
            "--denied",
            "9.9.9.0/24",
            entry,
        ]
        look = asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=300, check=False)
        ended = await look
    assert ended.returncode == 2
    assert "address that agents may not reach" in ended.stderr.splitlines()[-1]
    assert heard == []


@pytest.mark.process
@pytest.mark.parametrize(("changes", "says"), UNREACHABLE)
def test_mcp_probe_reports_why_it_failed(changes, says):
    command = [*AGENT, "probe", "mcp", "--patience", "0", json.dumps({"name": "s", **changes})]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert says in ended.stderr.splitlines()[-1]
    assert ended.stdout == ""


async def test_mcp_probe_waits_for_a_starting_server(python_servers):
    port = free_port()
    look = asyncio.create_task(asyncio.to_thread(probe, port))
    await asyncio.sleep(2)
    assert not look.done()
    words = [word.replace("$(PORT)", str(port)) for word in BRIDGE]
    bridge = subprocess.Popen([*words, "--", python_servers / "mcp-server-time"])
    try:
        assert len((await look)["tools"]) == 2
    finally:
        bridge.kill()
        bridge.wait()


def _children(process):
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
