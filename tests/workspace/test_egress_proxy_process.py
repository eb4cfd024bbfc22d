"""The egress proxy as a process, with real connections."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workspace.conftest import SOURCE, wait_until

BODY = 64 * 1024 * 1024
GROWTH = 16 * 1024 * 1024
START = """
import ipaddress
from fleetwright_workspace.proxy import __main__ as program
from fleetwright_workspace.proxy.proxy_server import EgressProxy

async def resolve(name, port):
    return [ipaddress.ip_address("127.0.0.1")]

program.main(lambda rules: EgressProxy(rules, resolve=resolve))
"""
"""The program with a resolver that needs no name server."""
READY = b"HTTP/1.1 200 Connection established\r\n\r\n"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


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


@pytest.fixture
def proxy(host: int) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port()
    local = [{"cidr": "127.0.0.0/8", "ports": [host]}]
    rules = json.dumps({"hosts": [{"host": "mirror", "ports": [host]}], "ranges": local})
    process = subprocess.Popen(
        [sys.executable, "-c", START, f"--listen=127.0.0.1:{port}", f"--rules={rules}"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: ask(port, b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 "))
    yield process, port
    process.kill()
    process.communicate(timeout=20)


def ask(port: int, request: bytes) -> bytes:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
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
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
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


def test_proxy_logs_a_refusal_and_ends_on_sigterm(proxy):
    process, port = proxy
    answer = ask(port, b"CONNECT registry.example.com:443 HTTP/1.1\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n")
    assert b"spec.workspace.network.egress" in answer
    process.send_signal(signal.SIGTERM)
    _, logged = process.communicate(timeout=60)
    assert process.returncode == 0
    assert logged == "refused host=registry.example.com port=443 reason='host not allowed'\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param(["--listen=x", "--rules={}"], "--listen: x is not HOST:PORT", id="no port"),
        pytest.param(["--listen=127.0.0.1:1", "--rules={}"], "--rules: the rules have another shape", id="no hosts"),
    ],
)
@pytest.mark.process
def test_proxy_with_unusable_options_says_which(options, says):
    command = [sys.executable, "-m", "fleetwright_workspace.proxy", *options]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(SOURCE)}, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith(says)
