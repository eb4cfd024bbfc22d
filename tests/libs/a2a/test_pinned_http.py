"""Pinned connections: they use the address that the policy checked, even if DNS changes. Sockets and TLS are real."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.machine import ceiling

from fleetwright_a2a.outbound.pinned_http import DeniedAddress, PinnedTransport, ProxiedTransport, resolve
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy

HERE = ipaddress.ip_network("127.0.0.0/8")


class Canary:
    """A server that answers every request, and records its connections, requests and server names."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []
        self.names: list[str | None] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests.append(head.decode())
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def listening(
    canary: Canary, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    server = await asyncio.start_server(canary, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def names(*script: Sequence[str]) -> Callable[..., object]:
    """Return a resolver that gives the answers in order, and then repeats the last one."""
    answers = [[ipaddress.ip_address(each) for each in answer] for answer in script]

    async def look_up(host: str, port: int) -> Sequence[object]:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return look_up


def client(policy: EgressPolicy, **options: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=PinnedTransport(policy, **options), trust_env=False, timeout=ceiling())  # type: ignore[arg-type] - the test's own


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return the TLS context of a server, and that of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain = folder / "server.pem"
    chain.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    trusting = ssl.create_default_context(cadata=made.public_bytes(serialization.Encoding.PEM).decode())
    return server, trusting


@pytest.mark.process
async def test_pinned_http_verifies_the_host_name_over_tls(tmp_path: Path) -> None:
    """TLS verification and SNI use the host name although the address is pinned."""
    serving, trusting = certificate(tmp_path, "hooks.example.com")
    canary = Canary()
    serving.sni_callback = lambda _, name, __: canary.names.append(name)
    async with listening(canary, tls=serving) as port:
        policy = EgressPolicy(ranges=(HERE,))
        async with client(policy, verify=trusting, resolving=names(["127.0.0.1"])) as http:
            answer = await http.get(f"https://hooks.example.com:{port}/path")
            assert (answer.status_code, answer.text) == (200, "ok")
            assert canary.names == ["hooks.example.com"]
            assert f"host: hooks.example.com:{port}" in canary.requests[0].lower()
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await http.get(f"https://evil.example.com:{port}/")


@pytest.mark.process
async def test_pinned_http_does_not_follow_dns_rebinding() -> None:
    canary = Canary()
    async with listening(canary) as port:
        only = EgressPolicy(ranges=(ipaddress.ip_network("127.0.0.2/32"),))
        async with client(only, resolving=names(["127.0.0.2"], ["127.0.0.1"])) as http:
            with pytest.raises(httpx.ConnectError, match="All connection attempts failed"):
                await http.get(f"http://rebinds.example.com:{port}/")  # no server listens on this port
            with pytest.raises(DeniedAddress):
                await http.get(f"http://rebinds.example.com:{port}/")
    assert canary.connections == 0


@pytest.mark.process
async def test_pinned_http_resolves_once_per_connection() -> None:
    canary, asked = Canary(), []

    async def once(host: str, port: int) -> Sequence[object]:
        asked.append(host)
        return [ipaddress.ip_address("127.0.0.1")]

    async with listening(canary) as port, client(EgressPolicy(ranges=(HERE,)), resolving=once) as http:
        for _ in range(2):
            assert (await http.get(f"http://x.example.com:{port}/")).status_code == 200
    assert (canary.connections, asked) == (1, ["x.example.com"])


@pytest.mark.process
async def test_pinned_http_returns_redirects_without_following() -> None:
    canary, trap = Canary(), Canary()
    async with listening(canary) as port, listening(trap) as other:
        canary.answer = (
            f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{other}/\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with client(EgressPolicy.declared([f"http://127.0.0.1:{port}"])) as http:
            assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 302
            with pytest.raises(DeniedAddress):
                await http.get(f"http://127.0.0.1:{port}/", follow_redirects=True)
    assert (canary.connections, trap.connections) == (1, 0)


@pytest.mark.process
async def test_pinned_http_uses_the_first_address_that_answers() -> None:
    canary = Canary()
    async with listening(canary) as port:
        resolving = names(["127.0.0.9", "127.0.0.1"])
        async with client(EgressPolicy(ranges=(HERE,)), resolving=resolving) as http:
            assert (await http.get(f"http://x.example.com:{port}/")).status_code == 200
    assert canary.connections == 1


async def test_pinned_http_unknown_host_is_a_connect_error_not_denied() -> None:
    async def unknown(host: str, port: int) -> Sequence[object]:
        raise OSError("Name or service not known")

    async with client(EgressPolicy(everywhere=True), resolving=unknown) as http:
        with pytest.raises(httpx.ConnectError) as caught:
            await http.get("http://nowhere.example.com/")
    assert not isinstance(caught.value, DeniedAddress)


@pytest.mark.process
async def test_resolve_returns_addresses_of_the_system_resolver() -> None:
    assert ipaddress.ip_address("127.0.0.1") in await resolve("localhost", 80)
    assert await resolve("::1", 80) == [ipaddress.ip_address("::1")]


async def test_pinned_http_connect_timeout_includes_the_resolver() -> None:
    async def hang(host: str, port: int) -> Sequence[object]:
        await asyncio.sleep(60)
        return []

    async with client(EgressPolicy(everywhere=True), resolving=hang) as http:
        with pytest.raises(httpx.ConnectTimeout):
            await http.get("http://slow.example.com/", timeout=0.1)


@pytest.mark.process
async def test_pinned_http_does_not_resolve_ip_addresses() -> None:
    async def never(host: str, port: int) -> Sequence[object]:
        raise AssertionError("there is no name")

    canary = Canary()
    async with listening(canary) as port, client(EgressPolicy(ranges=(HERE,)), resolving=never) as http:
        assert (await http.get(f"http://127.0.0.1:{port}/")).status_code == 200


TARGETS = [
    pytest.param("http://tools.example.com/mcp", True, id="the named target"),
    pytest.param("http://tools.example.com./other", True, id="another spelling of it"),
    pytest.param("http://tools.example.com:8080/", False, id="another port"),
    pytest.param("http://other.example.com/", False, id="another name"),
    pytest.param("http://127.0.0.1/", False, id="the host of the proxy"),
    pytest.param("http://169.254.169.254/", False, id="the metadata service"),
    pytest.param("http://9.9.9.9/mcp", False, id="a named address in a denied range"),
    pytest.param("http://8.8.8.8/mcp", True, id="a named address"),
    pytest.param("http://2130706433/", False, id="a number"),
]


@pytest.mark.process
@pytest.mark.parametrize(("url", "allowed"), TARGETS)
async def test_proxied_http_asks_the_proxy_for_named_targets_only(url: str, allowed: bool) -> None:
    declared = ["http://tools.example.com/mcp", "http://9.9.9.9/mcp", "http://8.8.8.8/mcp"]
    policy = EgressPolicy.declared(declared, denied=(ipaddress.ip_network("9.9.9.0/24"),))
    canary = Canary()
    async with listening(canary) as port:
        transport = ProxiedTransport(policy, proxy=f"http://127.0.0.1:{port}")
        async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=ceiling()) as http:
            if allowed:
                assert (await http.get(url)).status_code == 200
            else:
                with pytest.raises(DeniedAddress):
                    await http.get(url)
    assert [request.split()[1] for request in canary.requests] == ([url] if allowed else [])


PROXIES = [
    pytest.param(["169.254.169.254"], id="the metadata service"),
    pytest.param(["127.0.0.1"], id="loopback"),
    pytest.param(["93.184.216.34", "127.0.0.1"], id="loopback beside a public address"),
    pytest.param(["9.9.9.9"], id="a denied range"),
]


@pytest.mark.parametrize("addresses", PROXIES)
async def test_proxied_http_checks_the_addresses_of_the_proxy(addresses: list[str]) -> None:
    policy = EgressPolicy.declared(["http://tools.example.com"], denied=(ipaddress.ip_network("9.9.9.0/24"),))
    resolving = names(addresses)
    transport = ProxiedTransport(policy, proxy="http://proxy.example.com:3128", resolving=resolving)  # type: ignore[arg-type] - the test's own
    async with httpx.AsyncClient(transport=transport, trust_env=False, timeout=ceiling()) as http:
        with pytest.raises(DeniedAddress):
            await http.get("http://tools.example.com/mcp")
