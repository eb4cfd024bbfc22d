"""Requests that are malformed, too large or slow in coming, over a plain socket."""

import socket

import pytest
from tests.support.machine import ceiling
from tests.support.workspace import TOKEN, LocalWorkspace

from fleetwright_workspace.runner.connection_pool import BodyMemory
from fleetwright_workspace.runner.http_message import UNKNOWN_SECONDS

AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n"


def _exchange(workspace: LocalWorkspace, data: bytes) -> bytes:
    """Send the bytes, and return all that the runner answers until it closes the connection."""
    with socket.create_connection(
        (workspace.http.base_url.host, workspace.http.base_url.port), timeout=ceiling()
    ) as stream:
        stream.sendall(data)
        received = b""
        try:
            while piece := stream.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def _post(headers: str, body: str = "", path: str = "/v1/list") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n{body}".encode()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 2\r\n", "{}"), 200, id="good"),
        pytest.param(_post(f"{AUTHORIZED}content-length: 2\r\n", "{}"), 200, id="header in lower case"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 2\r\n", "[]"), 400, id="no object"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 3\r\n", "{x}"), 400, id="no JSON"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: -1\r\n"), 400, id="negative length"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), 400, id="two lengths"),
        pytest.param(_post(f"{AUTHORIZED}{AUTHORIZED}Content-Length: 2\r\n", "{}"), 400, id="two tokens"),
        pytest.param(_post(f"{AUTHORIZED}Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), 411, id="chunked"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 99999999\r\n"), 413, id="large body"),
        pytest.param(_post("Content-Length: 99999999\r\n"), 401, id="large body without a token"),
        pytest.param(_post(f"{AUTHORIZED}Content-Length: 2\r\n", "{}", path="/v1/none"), 404, id="unknown call"),
        pytest.param(f"GET /v1/list HTTP/1.1\r\n{AUTHORIZED}\r\n".encode(), 405, id="wrong method"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", 200, id="health"),
        pytest.param(b"GET /healthz HTTP/1.0\r\n\r\n", 200, id="HTTP/1.0"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 400, id="health with a body"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, id="health, chunked"),
        pytest.param(b"GET /healthz HTTP/2.0\r\n\r\n", 400, id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\r\n\r\n", 400, id="TLS"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nBad Header : x\r\n\r\n", 400, id="space before the colon"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nX: \xff\r\n\r\n", 400, id="not ASCII"),
        pytest.param(b"GET /" + b"a" * 40_000, 431, id="large head"),
        pytest.param(b"", 0, id="nothing"),
    ],
)
def test_runner_answers_strange_requests(workspace: LocalWorkspace, data: bytes, status: int) -> None:
    if not data:
        with socket.create_connection((workspace.http.base_url.host, workspace.http.base_url.port)):
            pass
    else:
        assert _exchange(workspace, data).startswith(f"HTTP/1.1 {status} ".encode())
    assert workspace.http.get("/healthz").json() == {"ready": True}


def test_requests_in_one_packet_are_answered_in_order(workspace: LocalWorkspace) -> None:
    one = f"GET /v1/info HTTP/1.1\r\n{AUTHORIZED}\r\n".encode()
    answer = _exchange(workspace, one + b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert answer.index(b'"version"') < answer.index(b'"ready"')


@pytest.mark.parametrize(
    "start", [b"", b"GET /v1/info HTTP/1.1\r\nX: ", b"GET /healthz HTTP/1.1\r\n\r\n"], ids=["idle", "slow", "health"]
)
def test_connections_without_a_token_leave_room(own_workspace: LocalWorkspace, start: bytes) -> None:
    address = (own_workspace.http.base_url.host, own_workspace.http.base_url.port)
    idle = [socket.create_connection(address, timeout=ceiling()) for _ in range(100)]
    for stream in idle:
        try:
            stream.sendall(start)
        except ConnectionError:
            continue  # a later connection has replaced it
    assert own_workspace.call("list")["entries"] == []
    for stream in idle:
        assert _is_closed_by_the_runner(stream)
        stream.close()
    assert own_workspace.call("list")["entries"] == [], "the connection of the client with the token stays open"


def _is_closed_by_the_runner(stream: socket.socket) -> bool:
    try:
        while stream.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_connection_with_a_token_may_be_idle(own_workspace: LocalWorkspace) -> None:
    address = (own_workspace.http.base_url.host, own_workspace.http.base_url.port)
    request = _post(f"{AUTHORIZED}Content-Length: 2\r\n", "{}").replace(b"Connection: close\r\n", b"")
    with socket.create_connection(address, timeout=UNKNOWN_SECONDS + 1) as stream:
        stream.sendall(request)
        assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        with pytest.raises(TimeoutError):
            stream.recv(1)


def test_command_has_a_smaller_body(workspace: LocalWorkspace) -> None:
    assert _exchange(workspace, _post(f"{AUTHORIZED}Content-Length: 2000000\r\n", path="/v1/exec")).startswith(
        b"HTTP/1.1 413 "
    )


def test_bodies_share_their_memory() -> None:
    memory = BodyMemory(most=10)
    with memory.reserved(6, seconds=0) as first, memory.reserved(6, seconds=0) as second:
        assert (first, second) == (True, False)
    with memory.reserved(10, seconds=0) as whole:
        assert whole


def test_errors_show_no_secret(workspace: LocalWorkspace) -> None:
    answer = _exchange(workspace, _post(f"{AUTHORIZED}Content-Length: 3\r\n", "{x}"))
    assert TOKEN.encode() not in answer
    assert b"Traceback" not in answer
