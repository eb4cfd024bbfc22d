"""The egress proxy over pairs of sockets: what it connects to, what it refuses, and that everything is bounded."""

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support import virtual_time

from fleetwright_workspace.proxy.egress_rules import EgressRefusedError, parse_rules
from fleetwright_workspace.proxy.proxy_request import ProxyRequestError, parse_request
from fleetwright_workspace.proxy.proxy_server import HEAD_LIMIT, EgressProxy, ProxyLimits, Streams

PUBLIC, PRIVATE, METADATA = "93.184.215.14", "10.0.0.7", "169.254.169.254"
RULES = {
    "hosts": [
        {"host": "registry.example.com", "ports": [443, 80]},
        {"host": "mirror", "ports": [4873], "service": "mirror.shop.svc.cluster.local"},
    ],
    "ranges": [
        {"cidr": "10.9.0.0/16", "except": ["10.9.9.0/24"], "ports": [443]},
        {"cidr": "203.0.113.0/28", "ports": [443]},
    ],
    "denied": ["203.0.113.0/24", "8.8.8.0/24"],
}
TUNNEL = b"CONNECT registry.example.com:443 HTTP/1.1\r\nHost: registry.example.com:443\r\n\r\n"
PLAIN = b"GET http://registry.example.com/ HTTP/1.1\r\n\r\n"
READY = b"HTTP/1.1 200 Connection established\r\n\r\n"


async def pair(limit: int = HEAD_LIMIT) -> tuple[Streams, Streams]:
    """Return two connected streams. The limit is that of the second one."""
    near, far = socket.socketpair()
    return await asyncio.open_connection(sock=near), await asyncio.open_connection(sock=far, limit=limit)


class ProxyWorld:
    """A proxy with a name server and hosts of its own. Hosts are the far ends of connections."""

    def __init__(self, *answers: list[str], limits: ProxyLimits | None = None) -> None:
        self.answers = list(answers) or [[PUBLIC]]
        self.lookups: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.hosts: list[Streams] = []
        self.reached = asyncio.Event()
        self.unreachable: set[str] = set()
        self.clients: list[Streams] = []
        self.lines: list[str] = []
        self.served: list[asyncio.Task[None]] = []
        self.proxy = EgressProxy(
            parse_rules(json.dumps(RULES)),
            limits=limits or ProxyLimits(),
            resolve=self.resolve,
            connect=self.connect,
            log=self.lines.append,
        )

    async def resolve(self, name: str, port: int) -> list[Any]:
        self.lookups.append(name)
        found = self.answers[min(len(self.lookups), len(self.answers)) - 1]
        if not found:
            raise OSError("the name is unknown")
        return [ipaddress.ip_address(each) for each in found]

    async def connect(self, ip: Any, port: int) -> Streams:
        if str(ip) in self.unreachable:
            raise OSError("no route")
        self.connected.append((str(ip), port))
        host, mine = await pair(limit=1 << 15)
        self.hosts.append(host)
        self.reached.set()
        return mine

    async def client(self, data: bytes) -> Streams:
        client, mine = await pair()
        self.clients.append(client)
        self.served.append(asyncio.create_task(self.proxy.serve(*mine)))
        client[1].write(data)
        return client

    async def tunnel(self) -> tuple[Streams, Streams]:
        client = await self.client(TUNNEL)
        assert await client[0].readexactly(len(READY)) == READY
        return client, self.hosts[-1]

    async def ask(self, data: bytes) -> bytes:
        client = await self.client(data)
        answer = await client[0].read()
        client[1].close()
        await self.served[-1]
        return answer


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    virtual_time.run(main())


async def end(world: ProxyWorld) -> None:
    """Close the clients and the hosts, and wait until nothing of the proxy is open."""
    for _, writer in [*world.clients, *world.hosts]:
        writer.close()
    await asyncio.gather(*world.served, return_exceptions=True)
    for _, writer in [*world.clients, *world.hosts]:
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def connect_to(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("target", "lookup", "address"),
    [
        pytest.param("registry.example.com:443", "registry.example.com.", PUBLIC, id="a host"),
        pytest.param("Registry.Example.COM.:443", "registry.example.com.", PUBLIC, id="another spelling"),
        pytest.param("mirror:4873", "mirror.shop.svc.cluster.local.", PRIVATE, id="a Service, by its full name"),
        pytest.param("registry.example.com:443", "registry.example.com.", "10.9.1.1", id="an address of a range"),
    ],
)
def test_proxy_connects_to_the_resolved_address(target, lookup, address):
    async def main():
        world = ProxyWorld([address])
        client = await world.client(connect_to(target))
        assert await client[0].readexactly(len(READY)) == READY
        assert world.lookups == [lookup]
        assert world.connected == [(address, int(target.rpartition(":")[2]))]
        assert world.lines == []
        await end(world)

    run(main)


def test_proxy_connects_to_an_address_of_a_range():
    async def main():
        world = ProxyWorld()
        client = await world.client(connect_to("10.9.1.1:443"))
        assert await client[0].readexactly(len(READY)) == READY
        assert (world.lookups, world.connected) == ([], [("10.9.1.1", 443)])
        await end(world)

    run(main)


def test_refused_address_gets_advice_that_the_api_accepts():
    with pytest.raises(EgressRefusedError) as refused:
        parse_rules(json.dumps(RULES)).rule_for("10.20.0.5", 5432)
    assert "{to: {ipBlock: {cidr: 10.20.0.5/32}}, ports: [{port: 5432}]}" in str(refused.value)
    assert "NO_PROXY=10.20.0.5" in str(refused.value)


@pytest.mark.parametrize("host", ["a..example.com", f"{'a' * 64}.example.com"])
def test_proxy_answers_if_a_label_cannot_be_resolved(host):
    async def main():
        log: list[str] = []
        rules = parse_rules(json.dumps({"hosts": [{"host": host, "ports": [443]}]}))
        world = ProxyWorld()
        world.proxy = EgressProxy(rules, log=log.append)
        assert (await world.ask(connect_to(f"{host}:443"))).startswith(b"HTTP/1.1 502 ")
        assert log[0].startswith(f"failed host={host} port=443 ")
        await end(world)

    run(main)


FIELD = b"spec.workspace.network.egress"
REFUSED = [
    pytest.param("other.example.com:443", [PUBLIC], "host not allowed", id="another host"),
    pytest.param("a.registry.example.com:443", [PUBLIC], "host not allowed", id="a host below an allowed one"),
    pytest.param(f"{PUBLIC}:443", [PUBLIC], "address not allowed", id="an address instead of its name"),
    pytest.param("[::1]:443", [PUBLIC], "address not allowed", id="an IPv6 address"),
    pytest.param("10.9.1.1:80", [PUBLIC], "address not allowed", id="an address of a range with another port"),
    pytest.param("10.9.9.1:443", [PUBLIC], "address not allowed", id="an address that its range excepts"),
    pytest.param("[::ffff:10.9.1.1]:443", [PUBLIC], "address not allowed", id="a mapped address of a range"),
    pytest.param("203.0.113.7:443", [PUBLIC], "address denied", id="an address of a range that is denied"),
    pytest.param("registry.example.com:22", [PUBLIC], "port not allowed", id="another port"),
    pytest.param("registry.example.com:443", [PRIVATE], "private address", id="a private address"),
    pytest.param("registry.example.com:443", ["10.9.9.1"], "private address", id="an exception of a range"),
    pytest.param("registry.example.com:80", ["10.9.1.1"], "private address", id="a range with another port"),
    pytest.param("registry.example.com:443", ["fd00::1"], "private address", id="a private IPv6 address"),
    pytest.param("registry.example.com:443", [PUBLIC, PRIVATE], "private address", id="one private address of two"),
    pytest.param("registry.example.com:443", ["127.0.0.1"], "local address", id="loopback"),
    pytest.param("registry.example.com:443", [METADATA], "local address", id="metadata"),
    pytest.param("registry.example.com:443", ["::ffff:127.0.0.1"], "local address", id="mapped loopback"),
    pytest.param("registry.example.com:443", ["64:ff9b::a9fe:a9fe"], "local address", id="metadata through NAT64"),
    pytest.param("mirror:4873", [METADATA], "local address", id="a Service that leads to metadata"),
    pytest.param("mirror:4873", ["::1"], "local address", id="a Service that leads to loopback"),
    pytest.param("registry.example.com:443", ["8.8.8.8"], "address denied", id="a range that is denied"),
]


@pytest.mark.parametrize(("target", "addresses", "reason"), REFUSED)
def test_proxy_refuses_with_the_field_to_change(target, addresses, reason):
    async def main():
        world = ProxyWorld(addresses)
        answer = await world.ask(connect_to(target))
        assert answer.startswith(b"HTTP/1.1 403 Not allowed by spec.workspace.network.egress\r\n")
        body = answer.partition(b"\r\n\r\n")[2]
        assert FIELD in body or reason in {"local address", "address denied"}
        assert world.connected == []
        (line,) = world.lines
        assert line.endswith(f"reason={reason!r}")
        await end(world)

    run(main)


def test_proxy_never_uses_a_second_answer_of_the_name_server():
    async def main():
        world = ProxyWorld([PUBLIC], ["127.0.0.1"])
        await world.tunnel()
        assert (len(world.lookups), world.connected) == (1, [(PUBLIC, 443)])
        assert b" 403 " in await world.ask(TUNNEL)
        assert world.connected == [(PUBLIC, 443)]
        await end(world)

    run(main)


def test_proxy_tries_the_next_address_of_a_name():
    async def main():
        world = ProxyWorld(["2606:2800::1", PUBLIC])
        world.unreachable = {"2606:2800::1"}
        await world.tunnel()
        assert world.connected == [(PUBLIC, 443)]
        world.unreachable.add(PUBLIC)
        assert (await world.ask(TUNNEL)).startswith(b"HTTP/1.1 502 ")
        world.answers = [[]]
        assert (await world.ask(TUNNEL)).startswith(b"HTTP/1.1 502 ")
        assert [line.partition(" ")[0] for line in world.lines] == ["failed", "failed"]
        await end(world)

    run(main)


def test_tunnel_passes_the_end_of_one_direction_on():
    async def main():
        world = ProxyWorld()
        client, host = await world.tunnel()
        client[1].write(b"question")
        client[1].write_eof()
        assert await host[0].read() == b"question"
        host[1].write(b"answer")
        host[1].close()
        assert await client[0].read() == b"answer"
        await end(world)

    run(main)


async def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected TCP sockets. Other pairs of sockets know no reset."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


async def tcp_client(world: ProxyWorld, data: bytes) -> Streams:
    near, far = await tcp_pair()
    client = await asyncio.open_connection(sock=near)
    world.clients.append(client)
    mine = await asyncio.open_connection(sock=far, limit=HEAD_LIMIT)
    world.served.append(asyncio.create_task(world.proxy.serve(*mine)))
    client[1].write(data)
    return client


UPLOAD = b"POST http://registry.example.com/ HTTP/1.1\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("request_bytes", [TUNNEL, UPLOAD], ids=["tunnel", "plain HTTP"])
@pytest.mark.process
def test_client_is_reset_if_the_host_fails(request_bytes):
    """A body that was cut must not look complete."""

    async def main():
        world = ProxyWorld()
        client = await tcp_client(world, request_bytes)
        head = READY if request_bytes == TUNNEL else b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
        await world.reached.wait()
        (host,) = world.hosts
        if request_bytes == UPLOAD:
            host[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        assert await client[0].readexactly(len(head)) == head
        host[1].write(b"half of ")
        assert await client[0].readexactly(8) == b"half of "
        # Unread bytes turn the close of the host's end into a failure.
        host[1].transport.pause_reading()
        client[1].write(b"it")
        await asyncio.sleep(1)
        host[1].transport.abort()
        with pytest.raises(ConnectionResetError):
            await client[0].read()
        await end(world)

    run(main)


def test_tunnel_holds_back_a_sender_that_is_too_fast():
    """The proxy keeps at most its buffers. Both ends have the buffers of a socket, too."""

    async def main():
        world = ProxyWorld()
        client, host = await world.tunnel()
        piece, sent, count = b"x" * 65536, 0, 400
        host[1].transport.set_write_buffer_limits(high=0)

        async def send() -> None:
            nonlocal sent
            for _ in range(count):
                host[1].write(piece)
                await host[1].drain()
                sent += len(piece)
            host[1].write_eof()

        sending = asyncio.create_task(send())
        # The clock advances only when no task can go on.
        await asyncio.sleep(1)
        assert sent < 4 * 1024 * 1024
        received = 0
        while data := await client[0].read(1 << 16):
            received += len(data)
        await sending
        assert received == count * len(piece)
        await end(world)

    run(main)


def test_proxy_ends_what_takes_too_long():
    async def main():
        world = ProxyWorld(limits=ProxyLimits(head_seconds=5, idle_seconds=60))
        slow = await world.client(b"CONNECT registry.exam")
        client, host = await world.tunnel()
        assert (await slow[0].read()).startswith(b"HTTP/1.1 408 ")
        assert asyncio.get_running_loop().time() < 10
        host[1].write(b"late")
        assert await client[0].readexactly(4) == b"late"
        assert await host[0].read() == b""
        assert 60 <= asyncio.get_running_loop().time() < 90
        await end(world)

    run(main)


def test_proxy_bounds_the_time_for_a_connection():
    async def main():
        world = ProxyWorld(limits=ProxyLimits(connect_seconds=7))

        async def never(name: str, port: int) -> list[Any]:
            await asyncio.sleep(1000)
            return []

        world.proxy = EgressProxy(
            parse_rules(json.dumps(RULES)), limits=ProxyLimits(connect_seconds=7), resolve=never, log=world.lines.append
        )
        assert (await world.ask(TUNNEL)).startswith(b"HTTP/1.1 504 ")
        assert world.lines == ["failed host=registry.example.com port=443 reason='timed out'"]
        await end(world)

    run(main)


def test_proxy_bounds_its_connections():
    async def main():
        world = ProxyWorld(limits=ProxyLimits(connections=1))
        await world.tunnel()
        assert (await world.ask(TUNNEL)).startswith(b"HTTP/1.1 503 ")
        assert (await world.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await end(world)
        assert (await world.ask(b"GET /healthz HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        await end(world)

    run(main)


def test_proxy_ends_open_connections_when_it_stops():
    async def main():
        world = ProxyWorld()
        _, host = await world.tunnel()
        await world.proxy.drain(20)
        assert await host[0].read() == b""
        await end(world)

    run(main)


@pytest.mark.process
def test_client_is_reset_if_the_proxy_stops():
    async def main():
        world = ProxyWorld()
        client = await tcp_client(world, TUNNEL)
        assert await client[0].readexactly(len(READY)) == READY
        await world.proxy.drain(20)
        with pytest.raises(ConnectionResetError):
            await client[0].read()
        await end(world)

    run(main)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"CONNECT a:1 HTTP/1.1\r\nX: " + b"y" * HEAD_LIMIT + b"\r\n\r\n", 431, id="a large header"),
        pytest.param(b"A: b\r\n" * 4000, 431, id="an endless head"),
        pytest.param(b"CONNECT registry.example.com HTTP/1.1\r\n\r\n", 400, id="no port"),
        pytest.param(b"CONNECT user@registry.example.com:443 HTTP/1.1\r\n\r\n", 400, id="a user"),
        pytest.param(b"CONNECT registry.example.com:0 HTTP/1.1\r\n\r\n", 400, id="port 0"),
        pytest.param(b"CONNECT registry.example.com:443 HTTP/2\r\n\r\n", 400, id="another version"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", 400, id="a request for a server"),
        pytest.param(b"GET https://registry.example.com/ HTTP/1.1\r\n\r\n", 400, id="https without a tunnel"),
        pytest.param(b"GET http://registry.example.com/\xff HTTP/1.1\r\n\r\n", 400, id="no ASCII"),
        pytest.param(b"GET http://registry.example.com/a\nb HTTP/1.1\r\n\r\n", 400, id="a line feed in the target"),
        pytest.param(b"POST http://a/ HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 400, id="another encoding"),
        pytest.param(b"POST http://a/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400, id="a length that is no number"),
        pytest.param(b"GET http://registry.example.com/ HTTP/1.1\r\nA : b\r\n\r\n", 400, id="a space before a colon"),
        pytest.param(b"GET http://registry.example.com/ HTTP/1.1\r\nA: b\nB: c\r\n\r\n", 400, id="a line feed alone"),
        pytest.param(
            b"POST http://registry.example.com/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            id="two lengths",
        ),
        pytest.param(b"TRACE http://registry.example.com/ HTTP/1.1\r\n\r\n", 405, id="TRACE"),
    ],
)
def test_proxy_answers_an_unusable_request(request_bytes, status):
    async def main():
        world = ProxyWorld()
        assert (await world.ask(request_bytes)).startswith(f"HTTP/1.1 {status} ".encode())
        assert world.lookups == []
        await end(world)

    run(main)


def test_plain_request_is_forwarded_for_its_host_only():
    async def main():
        world = ProxyWorld()
        head = (
            b"POST http://registry.example.com/a?b=c HTTP/1.1\r\nHost: other.example.com\r\nAccept: */*\r\n"
            b"Proxy-Authorization: Basic eA==\r\nConnection: keep-alive, X-Hop, Content-Length\r\nX-Hop: 1\r\n"
            b"Content-Length: 4\r\n\r\nbody"
        )
        client = await world.client(head)
        client[1].write_eof()
        await asyncio.sleep(1)
        (host,) = world.hosts
        assert await host[0].read() == (
            b"POST /a?b=c HTTP/1.1\r\nHost: registry.example.com\r\nAccept: */*\r\nContent-Length: 4\r\n"
            b"Connection: close\r\n\r\nbody"
        )
        assert world.connected == [(PUBLIC, 80)]
        host[1].write(b"HTTP/1.1 204 No Content\r\n\r\n")
        host[1].close()
        assert await client[0].read() == b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
        await end(world)

    run(main)


BODIES = [
    pytest.param(b"Content-Length: 4\r\n\r\nbody", id="a length"),
    pytest.param(b"Transfer-Encoding: chunked\r\n\r\n4;a=b\r\nbody\r\n0\r\nX: y\r\n\r\n", id="chunks"),
    pytest.param(b"\r\n", id="no body"),
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("size", [1, 1000], ids=["single bytes", "at once"])
def test_second_request_never_reaches_the_first_host(body, size):
    async def main():
        world = ProxyWorld()
        client = await world.client(b"POST http://registry.example.com/ HTTP/1.1\r\n")
        second = b"GET http://other.example.com/ HTTP/1.1\r\nAuthorization: Basic c2VjcmV0\r\n\r\n"
        for i in range(0, len(body), size):
            client[1].write(body[i : i + size])
            await asyncio.sleep(0.01)
        await asyncio.sleep(1)
        (host,) = world.hosts
        received = await host[0].readuntil(b"\r\n\r\n")
        sent = body.partition(b"\r\n\r\n")[2]
        assert await host[0].readexactly(len(sent)) == sent
        host[1].write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok")
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        assert await client[0].readexactly(len(answer)) == answer
        client[1].write(second)
        assert await host[0].read() == b""
        assert b"Authorization" not in received
        await end(world)

    run(main)


def test_interim_response_passes_before_the_final_one():
    async def main():
        world = ProxyWorld()
        client = await world.client(PLAIN)
        await asyncio.sleep(1)
        (host,) = world.hosts
        host[1].write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\n\r\nok")
        host[1].close()
        expected = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"
        assert await client[0].read() == expected
        await end(world)

    run(main)


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://a.example.com", b"GET / HTTP/1.1\r\n"),
        ("http://a.example.com:8080/x", b"GET /x HTTP/1.1\r\n"),
        ("http://a.example.com?q", b"GET /?q HTTP/1.1\r\n"),
        ("HTTP://a.example.com/#part", b"GET / HTTP/1.1\r\n"),
    ],
)
def test_plain_request_gets_the_path_of_its_url(url, line):
    request = parse_request(f"GET {url} HTTP/1.1\r\n\r\n".encode())
    assert request is not None
    assert request.host == "a.example.com"
    assert request.forwarded.startswith(line)


@pytest.mark.parametrize("host", ["a%00.example.com", "a example", "[::1", "", "ä.example.com", "http://x"])
def test_request_with_an_odd_host_is_refused(host):
    with pytest.raises(ProxyRequestError):
        parse_request(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())


@pytest.mark.parametrize("document", ["{}", "[]", '{"hosts": [{"host": "a"}]}', '{"hosts": 1}', "x"])
def test_rules_of_another_shape_are_refused(document):
    with pytest.raises(ValueError, match=r"."):
        parse_rules(document)


def test_wide_range_never_opens_local_addresses():
    rules = parse_rules(
        '{"hosts": [{"host": "a", "ports": [1]}], "ranges": [{"cidr": "0.0.0.0/0", "ports": [1]},'
        ' {"cidr": "127.0.0.0/8", "ports": [1]}]}'
    )
    rule = rules.rule_for("a", 1)
    rules.check_addresses(rule, 1, [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address(PRIVATE)])
    with pytest.raises(EgressRefusedError):
        rules.check_addresses(rule, 1, [ipaddress.ip_address(METADATA)])
