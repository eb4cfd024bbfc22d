"""Limits of the bridge's HTTP server, which any pod that its network policy admits can reach."""

import contextlib
import http.client
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.cluster.ports import free_port
from tests.support.agent.fork_server import ForkServer
from tests.support.machine import ceiling
from tests.support.waiting import is_listening, wait_until

MEBIBYTE = 1024 * 1024
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS})
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


@pytest.fixture(scope="module")
def bridge(fork_server: ForkServer) -> Iterator[int]:
    """The port of a bridge to a program that no session ever starts."""
    with run_bridge(fork_server, sys.executable) as port:
        yield port


@contextlib.contextmanager
def run_bridge(fork_server: ForkServer, *command: str) -> Iterator[int]:
    """Run a bridge to a program, and yield its port."""
    port = free_port()
    process = fork_server.start(["bridge", "--host", "127.0.0.1", "--port", str(port), "--", *command])
    try:
        wait_until(lambda: is_listening(process, port), "the bridge listens")
        yield port
    finally:
        process.kill()
        process.wait_blocking()


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(b"POST /mcp HTTP/1.1\r\nHost: x\r\n", b"X-Many: " + b"y" * 1000 + b"\r\n", id="headers"),
        pytest.param(
            b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"X-Many: " + b"y" * 1000 + b"\r\n",
            id="trailers",
        ),
    ],
)
def test_bridge_closes_connections_with_endless_headers(bridge: int, begin: bytes, piece: bytes) -> None:
    sent = 0
    with (
        socket.create_connection(("127.0.0.1", bridge), timeout=ceiling()) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(begin)
        while sent < 64 * MEBIBYTE:
            connection.sendall(piece * 100)
            sent += 100 * len(piece)
    assert sent < 32 * MEBIBYTE  # The kernel buffers a few megabytes.


def test_bridge_answers_an_upgrade_request(bridge: int) -> None:
    """The bridge has no WebSockets: it ignores the header `Upgrade`, and the connection stays usable."""
    upgrade = b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    plain = b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    with (
        socket.create_connection(("127.0.0.1", bridge), timeout=ceiling()) as connection,
        connection.makefile("rb") as answers,
    ):
        for request in (upgrade, plain):
            connection.sendall(request)
            assert answers.readline() == b"HTTP/1.1 404 Not Found\r\n"
            while answers.readline().strip():
                pass
            assert answers.read(len(b"Not Found")) == b"Not Found"
        assert answers.read() == b""


def test_bridge_times_out_incomplete_headers(bridge: int) -> None:
    with socket.create_connection(("127.0.0.1", bridge), timeout=ceiling()) as connection:
        connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        assert connection.recv(1) == b""


def test_bridge_starts_no_process_for_a_refused_request(fork_server: ForkServer, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = f"open({str(starts)!r}, 'a').write('x'); from mcp.server.fastmcp import FastMCP; FastMCP('tools').run()"
    with run_bridge(fork_server, sys.executable, "-c", program) as port:
        requests = (("GET", ""), ("POST", "{"), ("POST", PING), ("DELETE", ""))
        statuses = [send_request(port, *request)[0] for request in requests]
        assert send_request(port, "POST", INITIALIZE)[0] == 200
    assert statuses == [406, 400, 400, 400]
    assert starts.read_text() == "x"


def test_bridge_answers_if_its_program_cannot_be_started(fork_server: ForkServer, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.touch(0o755)
    with run_bridge(fork_server, str(program)) as port:
        program.unlink()
        status, text = send_request(port, "POST", INITIALIZE)
    assert (status, "the server's process cannot be started" in text) == (200, True), text


def send_request(port: int, method: str, body: str) -> tuple[int, str]:
    """Send a request without a session, and return the status and the text of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ceiling())
    accepted = "application/json" if method == "GET" else "application/json, text/event-stream"
    connection.request(method, "/mcp", body=body, headers={"Content-Type": "application/json", "Accept": accepted})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text
