"""Third-party MCP servers: through the bridge, over their own HTTP, and over the older transport."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from e2e.cluster.ports import free_port
from tests.support.machine import ceiling
from tests.support.waiting import await_until, is_listening, wait_until, within

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.tools.mcp.server import McpConnection
from fleetwright_agent.tools.port import ToolCall, ToolError

pytestmark = pytest.mark.starts_first

REQUEST = TurnRequest("o", "c", "t", "x")


@asynccontextmanager
async def connected(port, *, path="/mcp", **server):
    url = f"http://127.0.0.1:{port}{path}"
    config = McpServer.model_validate({"name": "s", "url": url, **server})
    connection = McpConnection(config, Layout(), discovery_seconds=ceiling())
    try:
        yield connection
    finally:
        await connection.aclose()


async def call(connection, name, **arguments):
    tools = {tool.name: tool for tool in await connection.tools()}
    return await tools[f"s__{name}"].run(ToolCall(arguments, REQUEST, lambda _: None))


@pytest.fixture
def probe(fork_server):
    """Return a function that runs the command `probe mcp` on a server, and returns its report."""

    def run(port, *, path="/mcp", transport="StreamableHTTP"):
        server = {"name": "s", "url": f"http://127.0.0.1:{port}{path}", "transport": transport}
        ended = fork_server.run("probe", "mcp", json.dumps(server))
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout.splitlines()[-1])

    return run


@pytest.fixture
def start_bridge(fork_server):
    """Return a function that starts a bridge to a program, waits until it listens, and returns it and its port."""
    running = []

    def start(*command, options=()):
        port = free_port()
        words = ["bridge", "--host", "127.0.0.1", "--port", str(port), *options, "--", *command]
        process = fork_server.start(words)
        running.append(process)
        wait_until(lambda: is_listening(process, port), f"the bridge to {command[0]} listens")
        return process, port

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait_blocking()


async def test_bridge_serves_the_time_server(start_bridge, probe, python_servers):
    _, port = start_bridge(str(python_servers / "mcp-server-time"), "--local-timezone", "UTC")
    async with connected(port) as connection:
        zones = {"source_timezone": "Europe/Berlin", "target_timezone": "Asia/Tokyo", "time": "12:00"}
        assert "19:00" in await call(connection, "convert_time", **zones) or "20:00" in await call(
            connection, "convert_time", **zones
        )
        with pytest.raises(ToolError, match=r"(?i)timezone"):
            await call(connection, "get_current_time", timezone="Nowhere/At_All")
    report = await asyncio.to_thread(probe, port)
    assert [tool["name"] for tool in report["tools"]] == ["convert_time", "get_current_time"]
    assert report["serverInfo"]["name"] == "mcp-time"
    assert all(tool["digest"].startswith("sha256:") for tool in report["tools"])


@pytest.mark.exhaustive
async def test_bridge_serves_the_git_server(start_bridge, python_servers, tmp_path):
    commands = (
        ("init", "-q", "-b", "main"),
        ("config", "user.email", "a@example.com"),
        ("config", "user.name", "A"),
        ("commit", "-q", "--allow-empty", "-m", "The first of all"),
    )
    for words in commands:
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    _, port = start_bridge(str(python_servers / "mcp-server-git"), "--repository", str(tmp_path))
    async with connected(port) as connection:
        assert "The first of all" in await call(connection, "git_log", repo_path=str(tmp_path))


HTTP = [
    pytest.param(("streamableHttp",), "/mcp", "StreamableHTTP", id="over streamable HTTP of its own"),
    pytest.param(("sse",), "/sse", "SSE", id="over the older transport", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize(("words", "path", "transport"), HTTP)
async def test_everything_server_works_over_every_transport(start, probe, everything, words, path, transport):
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


@pytest.mark.exhaustive
async def test_bridge_preserves_the_tools_digest(start, start_bridge, probe, everything):
    _, direct = start(*everything, "streamableHttp")
    _, bridged = start_bridge(*everything, "stdio")
    assert probe(direct)["toolsDigest"] == probe(bridged)["toolsDigest"]


async def test_bridge_runs_one_process_per_session_concurrently(start_bridge, python_servers):
    bridge, port = start_bridge(str(python_servers / "mcp-server-time"))
    async with connected(port) as first, connected(port) as second:
        await asyncio.gather(*(call(each, "get_current_time", timezone="UTC") for each in (first, second) * 10))
        children = _children(bridge.pid)
        assert len(children) == 2
    await await_until(lambda: not _children(bridge.pid), "the server's process ends when its client disconnects")


async def test_bridge_fails_calls_of_a_dead_server_and_restarts_it(start_bridge, everything):
    bridge, port = start_bridge(*everything, "stdio")
    async with connected(port) as connection:
        await connection.tools()
        (child,) = _children(bridge.pid)
        before = _bytes_read(child)
        calling = asyncio.create_task(call(connection, "trigger-long-running-operation", duration=600, steps=60))
        await await_until(lambda: _bytes_read(child) > before, "the server reads the call")
        os.kill(child, signal.SIGKILL)
        async with within("the call fails", promised=2):
            with pytest.raises(ToolError, match="ended before it answered"):
                await calling

        async def answer():
            with suppress(ToolError):  # A call fails when its session ends.
                return await call(connection, "echo", message="again")

        assert "again" in await await_until(answer, "the server is started again")


async def test_bridge_shuts_down_cleanly_and_leaves_no_process(start_bridge, python_servers):
    bridge, port = start_bridge(str(python_servers / "mcp-server-time"))
    async with connected(port) as connection:
        await connection.tools()
        children = _children(bridge.pid)
        bridge.terminate()
        async with within("the bridge ends", promised=8):
            code = await bridge.wait()
    assert code == 0
    assert children
    assert not any(Path(f"/proc/{child}").exists() for child in children)


async def test_bridge_refuses_sessions_beyond_its_limit(start_bridge, python_servers):
    _, port = start_bridge(str(python_servers / "mcp-server-time"), options=("--sessions", "1"))
    async with connected(port) as first:
        await first.tools()
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        async with httpx.AsyncClient(trust_env=False, timeout=ceiling()) as client:
            headers = {"Accept": "application/json, text/event-stream"}
            answer = await client.post(f"http://127.0.0.1:{port}/mcp", json=hello, headers=headers)
        assert answer.status_code == 503
        assert "UTC" in await call(first, "get_current_time", timezone="UTC")


def test_bridge_reports_a_missing_program_in_one_line(fork_server):
    ended = fork_server.run("bridge", "--port", "0", "--", "no-such-program")
    assert ended.returncode == 2
    assert "'no-such-program' does not exist in this image" in ended.stderr


UNREACHABLE = [
    pytest.param({"url": "http://127.0.0.1:9/mcp"}, 75, "the server cannot be reached", id="nobody listens"),
    pytest.param({"url": "http://x.invalid/mcp"}, 75, "the server cannot be reached", id="no such name"),
    pytest.param({"url": 7}, 2, "the description of the server is not valid: url", id="no description"),
]


async def test_mcp_probe_does_not_connect_to_denied_ranges(fork_server):
    async def hear(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(1)
        writer.close()

    heard: list[int] = []
    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        entry = json.dumps({"name": "s", "url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"})
        words = ["probe", "mcp", "--patience", "0", "--denied", "127.0.0.0/8", "--denied", "9.9.9.0/24", entry]
        ended = await asyncio.to_thread(fork_server.run, *words)
    assert ended.returncode == 75
    assert "address that agents may not reach" in ended.stderr.splitlines()[-1]
    assert heard == []


@pytest.mark.parametrize(("changes", "code", "says"), UNREACHABLE)
def test_mcp_probe_reports_why_it_failed(fork_server, changes, code, says):
    ended = fork_server.run("probe", "mcp", "--patience", "0", json.dumps({"name": "s", **changes}))
    assert ended.returncode == code
    assert says in ended.stderr.splitlines()[-1]
    assert ended.stdout == ""


async def test_mcp_probe_waits_for_a_starting_server(fork_server, probe, python_servers):
    """The server refuses connections until the bridge listens on the port of a listener that accepts none."""
    with socket.create_server(("127.0.0.1", 0)) as refusing:
        refusing.settimeout(ceiling())
        port = refusing.getsockname()[1]
        look = asyncio.create_task(asyncio.to_thread(probe, port))
        connection, _ = await asyncio.to_thread(refusing.accept)
        connection.close()
    words = ["bridge", "--host", "127.0.0.1", "--port", str(port), "--", str(python_servers / "mcp-server-time")]
    bridge = fork_server.start(words)
    try:
        assert len((await look)["tools"]) == 2
    finally:
        bridge.kill()
        await bridge.wait()


def _bytes_read(process):
    return int(Path(f"/proc/{process}/io").read_text().split()[1])


def _children(process):
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
