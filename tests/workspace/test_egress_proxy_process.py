"""The egress proxy as a process, with real connections."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.cluster.ports import free_port
from tests.support.machine import ceiling
from tests.support.waiting import wait_until
from tests.support.workspace import SOURCE

BODY = 64 * 1024 * 1024
GROWTH = 16 * 1024 * 1024
STALLED = 40
START = """
import ipaddress
from fleetwright_workspace.proxy import __main__ as program
from fleetwright_workspace.proxy.proxy_server import EgressProxy

async def resolve(name, port):
    return [ipaddress.ip_address("127.0.0.1")]

program.main(lambda rules: EgressProxy(rules, resolve=resolve), endpoint_seconds=ENDPOINT_SECONDS)
"""
"""The program with a resolver that needs no name server."""
READY = b"HTTP/1.1 200 Connection established\r\n\r\n"


def send_body(listener: socket.socket) -> None:
    stream, _ = listener.accept()
    with stream:
        for _ in range(BODY // 65536):
            stream.sendall(b"x" * 65536)


@pytest.fixture
def host(process_ring: None) -> Iterator[int]:
    """The port of a host that sends a large body to its first client."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=send_body, args=(listener,), daemon=True).start()
        yield int(listener.getsockname()[1])


@contextlib.contextmanager
def running(host: int, *, endpoint_seconds: float = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port()
    local = [{"cidr": "127.0.0.0/8", "ports": [host]}]
    rules = json.dumps({"hosts": [{"host": "mirror", "ports": [host]}], "ranges": local})
    program = START.replace("ENDPOINT_SECONDS", str(endpoint_seconds))
    process = subprocess.Popen(
        [sys.executable, "-c", program, f"--listen=127.0.0.1:{port}", f"--rules={rules}"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(
            lambda: ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "), "the proxy is healthy"
        )
        yield process, port
    finally:
        process.kill()
        process.communicate(timeout=ceiling())


@pytest.fixture
def proxy(host: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    with running(host) as started:
        yield started


def ask(port: int, request: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=ceiling()) as stream:
            stream.sendall(request)
            return b"".join(iter(lambda: stream.recv(65536), b""))
    except ConnectionRefusedError:
        return b""


def peak_memory(process: subprocess.Popen[str]) -> int:
    """Return the largest resident memory of the process so far, in bytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def test_large_body_passes_with_flat_memory(proxy, host):
    process, port = proxy
    before = peak_memory(process)
    with socket.create_connection(("127.0.0.1", port), timeout=ceiling()) as stream:
        stream.sendall(f"CONNECT mirror:{host} HTTP/1.1\r\n\r\n".encode())
        received, data = 0, stream.recv(65536)
        assert data.startswith(READY)
        while data:
            received += len(data)
            data = stream.recv(65536)
    grown = peak_memory(process) - before
    print(f"memory before {before >> 20} MB, grown by {grown >> 10} kB")  # noqa: T201 - the figure
    assert received == BODY + len(READY)
    assert grown < GROWTH


def fill(streams: list[socket.socket]) -> None:
    """Send on each connection until nothing takes more bytes. Nobody reads."""
    piece, idle = b"x" * (1 << 18), 0
    while idle < 5:
        sent = 0
        for stream in streams:
            with contextlib.suppress(BlockingIOError):
                sent += stream.send(piece)
        idle = 0 if sent else idle + 1
        time.sleep(0.05)


@pytest.mark.process
def test_stalled_tunnels_stay_within_the_memory_limit():
    """The container of the proxy has a memory limit of 128Mi, and the proxy serves at most 256 connections."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        host = int(listener.getsockname()[1])
        process, port = stack.enter_context(running(host))
        before, streams = peak_memory(process), []
        for _ in range(STALLED):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=ceiling()))
            client.sendall(f"CONNECT mirror:{host} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(len(READY)) == READY
            accepted, _ = listener.accept()
            streams += [client, stack.enter_context(accepted)]
        for stream in streams:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                stream.setsockopt(socket.SOL_SOCKET, option, 16 * 1024)
            stream.setblocking(False)
        fill(streams)
        grown = (peak_memory(process) - before) // STALLED
    print(f"memory before {before >> 20} MB, grown by {grown >> 10} KiB for each tunnel")  # noqa: T201 - the figure
    assert before + 256 * grown < 112 * 1024 * 1024


def test_proxy_accepts_connections_while_its_address_is_known(host):
    with running(host, endpoint_seconds=600) as (process, port):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_proxy_logs_a_refusal_and_ends_on_sigterm(proxy):
    process, port = proxy
    answer = ask(port, b"CONNECT registry.example.com:443 HTTP/1.1\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n")
    assert b"spec.workspace.network.egress" in answer
    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=ceiling())
    assert process.returncode == 0
    assert logged == "refused host=registry.example.com port=443 reason='host not allowed'\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(["--listen=x", "--rules={}"], "--listen: x is not HOST:PORT", id="no port"),
        pytest.param(["--listen=127.0.0.1:1", "--rules={}"], "--rules: the rules are malformed", id="no hosts"),
    ],
)
@pytest.mark.process
def test_proxy_with_unusable_options_says_which(options, says):
    command = [sys.executable, "-m", "fleetwright_workspace.proxy", *options]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(says)
