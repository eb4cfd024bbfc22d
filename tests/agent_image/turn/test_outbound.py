"""Requests to the model: declared headers, declared CA and declared proxy."""

import asyncio
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fleetwright_agent.config.layout import Layout


@dataclass
class Relay:
    """A server in front of the model that terminates TLS if it has a certificate, and answers CONNECT as a proxy."""

    port: int = 0
    heard: bytearray = field(default_factory=bytearray)
    """All bytes that clients sent."""


@asynccontextmanager
async def relay(target: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Relay]:
    seen = Relay()
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, copy: bytearray) -> None:
        while data := await reader.read(65536):
            copy += data
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen.heard.extend(head)
        tunnel = head.startswith(b"CONNECT")
        back, forth = await asyncio.open_connection(
            "127.0.0.1", int(head.split()[1].rsplit(b":", 1)[1]) if tunnel else target
        )
        (writer if tunnel else forth).write(b"HTTP/1.1 200 OK\r\n\r\n" if tunnel else head)
        try:
            await asyncio.gather(pump(reader, forth, seen.heard), pump(back, writer, bytearray()))
        finally:
            forth.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]  # a handler always runs in a task
        try:
            await connect(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    seen.port = server.sockets[0].getsockname()[1]
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.05)  # the event loop drops closed connections with a delay


def certificate(folder: Path) -> tuple[ssl.SSLContext, bytes]:
    """Return the TLS context of a server, and its self-signed certificate, which a client must trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "model")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = signed.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(public + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context, public


def mount(root: Path, name: str, content: bytes) -> str:
    path = Layout(root=root).secret(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


async def test_model_headers_are_read_from_files_for_every_call(config, talking, model_port, tmp_path):
    file = mount(tmp_path, "secrets/gateway/tenant", b"first\n")
    async with relay(model_port) as seen:
        model = {"baseUrl": f"http://127.0.0.1:{seen.port}/v1", "headers": [{"name": "X-Tenant", "valueFile": file}]}
        async with talking(config(model=model)) as talk:
            assert (await talk.say("Hello there")).failure is None
            assert b"x-tenant: first\r\n" in seen.heard.lower()
            mount(tmp_path, file, b"second")
            assert (await talk.say("Hello again")).failure is None
    assert b"x-tenant: second\r\n" in seen.heard.lower()


async def test_model_header_with_a_missing_file_fails_the_turn(config, talking):
    headers = [{"name": "X-Tenant", "valueFile": "secrets/gateway/tenant"}]
    async with talking(config(model={"headers": headers})) as talk:
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "model_key_missing"


async def test_model_ca_file_is_the_only_trust_anchor(config, talking, model_port, tmp_path):
    context, public = certificate(tmp_path)
    _, other = certificate(tmp_path)
    file = mount(tmp_path, "secrets/ca/ca.crt", other)
    async with relay(model_port, context) as seen:
        model = {"baseUrl": f"https://127.0.0.1:{seen.port}/v1", "caFile": file}
        async with talking(config(model=model)) as talk:
            refused = await talk.say("Hello there")
            assert refused.failure is not None
            assert refused.failure.reason == "model_unreachable"
            mount(tmp_path, file, public)
            assert (await talk.say("Hello there")).failure is None


async def test_model_ca_file_without_a_certificate_fails_the_turn(config, talking, tmp_path):
    file = mount(tmp_path, "secrets/ca/ca.crt", b"not a certificate")
    async with talking(config(model={"baseUrl": "https://127.0.0.1:1/v1", "caFile": file})) as talk:
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "model_ca_unusable"


async def test_model_proxy_carries_the_call(config, talking, model_port, tmp_path):
    context, public = certificate(tmp_path)
    file = mount(tmp_path, "secrets/ca/ca.crt", public)
    async with relay(model_port, context) as model_side, relay(0) as proxy:
        model = {
            "baseUrl": f"https://127.0.0.1:{model_side.port}/v1",
            "caFile": file,
            "proxyUrl": f"http://127.0.0.1:{proxy.port}",
        }
        async with talking(config(model=model)) as talk:
            assert (await talk.say("Hello there")).failure is None
    assert proxy.heard.startswith(b"CONNECT 127.0.0.1:%d " % model_side.port)


async def test_instructions_file_is_read_for_every_message(config, talking, model_port, tmp_path):
    file = mount(tmp_path, "configmaps/prompts/desk", b"Speak of apples.")
    async with (
        relay(model_port) as seen,
        talking(
            config(instructions="", instructionsFile=file, model={"baseUrl": f"http://127.0.0.1:{seen.port}/v1"})
        ) as talk,
    ):
        assert (await talk.say("Hello there")).failure is None
        assert b"Speak of apples." in seen.heard
        mount(tmp_path, file, b" \n")
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "instructions_missing"


@pytest.mark.parametrize("wrong", [{}, {"instructionsFile": "configmaps/a/b"}], ids=["neither", "both"])
def test_config_requires_exactly_one_source_of_instructions(config, wrong):
    instructions = "Be brief." if wrong else ""
    with pytest.raises(ValueError, match="exactly one of instructions"):
        config(instructions=instructions, **wrong)
