"""The HTTP proxy server: one request for each connection. It limits header sizes, times and connections."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from fleetwright_workspace.proxy.addresses import Ip
from fleetwright_workspace.proxy.egress_rules import EgressRefusedError, EgressRules, HostRule
from fleetwright_workspace.proxy.proxy_request import REASONS, ProxyRequest, ProxyRequestError, parse_request
from fleetwright_workspace.proxy.relay import ConnectionRelay
from fleetwright_workspace.proxy.single_request import ClosingResponse, RequestBody

HEAD_LIMIT = 8 * 1024
_BUFFER = 16 * 1024
"""What is read at once, and the limit of each buffer. A tunnel that stalls then takes about 180 KiB."""
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 64 * 1024
_LOOKUPS = ThreadPoolExecutor(8, thread_name_prefix="lookup")
Resolve = Callable[[str, int], Awaitable[Sequence[Ip]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[Ip, int], Awaitable[Streams]]


class ProxyLimits(NamedTuple):
    """Times are in seconds."""

    head_seconds: float = 10.0
    connect_seconds: float = 15.0
    """For the lookup of a name and the connection to one of its addresses together."""
    idle_seconds: float = 300.0
    connections: int = 256


async def resolve(name: str, port: int) -> list[Ip]:
    """Return all addresses of a name from the system's resolver. Raises: OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_LOOKUPS, lambda: socket.getaddrinfo(name, port, type=socket.SOCK_STREAM))
    return list(dict.fromkeys(ipaddress.ip_address(str(place[0]).partition("%")[0]) for *_, place in found))


async def connect(ip: Ip, port: int) -> Streams:
    """Connect to an address. Raises: OSError."""
    return await asyncio.open_connection(str(ip), port, limit=_BUFFER)


def log(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class EgressProxy:
    def __init__(
        self,
        rules: EgressRules,
        *,
        limits: ProxyLimits = ProxyLimits(),  # noqa: B008 - immutable
        resolve: Resolve = resolve,
        connect: Connect = connect,
        log: Callable[[str], None] = log,
    ) -> None:
        self._rules = rules
        self._limits = limits
        self._resolve = resolve
        self._connect = connect
        self._log = log
        self._open: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> asyncio.AbstractServer:
        """Accept connections until the returned server is closed."""
        return await asyncio.start_server(self.serve, host, port, limit=HEAD_LIMIT, backlog=64)

    async def drain(self, seconds: float) -> None:
        """Wait up to `seconds` until no connection is open, and then cancel the rest."""
        if self._open:
            await asyncio.wait(self._open, timeout=seconds)
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, and close it. The limit of the reader bounds the head of the request."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a connection is served in a task")
        self._open.add(task)
        try:
            if len(self._open) > 2 * self._limits.connections:
                writer.transport.abort()
                return
            _bound_reads(writer)
            await self._answer_request((reader, writer), is_full=len(self._open) > self._limits.connections)
        except ProxyRequestError as error:
            await _refuse(reader, writer, error)
        except OSError:
            pass  # the client is gone
        finally:
            self._open.discard(task)
            writer.close()

    async def _answer_request(self, client: Streams, *, is_full: bool) -> None:
        """Answer the request. A full proxy answers only the health check, so that the kubelet does not restart it."""
        request = parse_request(await self._head(client[0]))
        if request is None:
            await _answer(client[1], 200, "ok")
            return
        if is_full:
            raise ProxyRequestError(503, f"{self._limits.connections} connections are open; close some and try again")
        host = await self._host(request)
        _bound_reads(host[1])
        try:
            if request.forwarded:
                host[1].write(request.forwarded)
            else:
                client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            for _, writer in (client, host):
                writer.transport.set_write_buffer_limits(high=_BUFFER)
            clock = asyncio.get_running_loop().time
            relay = ConnectionRelay(idle_seconds=self._limits.idle_seconds, clock=clock)
            if request.forwarded:
                body, response = RequestBody(client[0], request.length), ClosingResponse(host[0])
                await relay.run((body, client[1]), (response, host[1]))
            else:
                await relay.run(client, host)
        finally:
            host[1].close()

    async def _head(self, reader: asyncio.StreamReader) -> bytes:
        try:
            return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), self._limits.head_seconds)
        except asyncio.LimitOverrunError:
            raise ProxyRequestError(431, f"the head of the request is larger than {HEAD_LIMIT} bytes") from None
        except asyncio.TimeoutError:
            raise ProxyRequestError(408, "the head of the request did not arrive in time") from None
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("the client is gone") from None

    async def _host(self, request: ProxyRequest) -> Streams:
        """Connect to the host of a request, if it is allowed. Raises: ProxyRequestError."""
        name = f"{request.host}:{request.port}"
        try:
            rule = self._rules.rule_for(request.host, request.port)
            return await asyncio.wait_for(self._reach(rule, request.port), self._limits.connect_seconds)
        except EgressRefusedError as refusal:
            self._log(f"refused host={request.host} port={request.port} reason={refusal.reason!r}")
            raise ProxyRequestError(403, str(refusal)) from None
        except asyncio.TimeoutError:
            self._log(f"failed host={request.host} port={request.port} reason='timed out'")
            raise ProxyRequestError(504, f"{name} did not answer within {self._limits.connect_seconds:g} s") from None
        except (OSError, UnicodeError) as error:
            # The resolver raises UnicodeError for a label that is empty or too long.
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._log(f"failed host={request.host} port={request.port} reason={why!r}")
            raise ProxyRequestError(502, f"{name} cannot be reached: {why}") from None

    async def _reach(self, rule: HostRule, port: int) -> Streams:
        """Resolve the name once, check every address, and connect to the first that answers."""
        addresses = [rule.address] if rule.address else await self._resolve(rule.lookup, port)
        self._rules.check_addresses(rule, port, addresses)
        failure = OSError("the name has no address")
        for ip in addresses:
            try:
                return await self._connect(ip, port)
            except OSError as error:
                failure = error
        raise failure


def _bound_reads(writer: asyncio.StreamWriter) -> None:
    """Make the transport read little at once: asyncio reads 256 KiB, whatever the limit of the reader is."""
    transport: Any = writer.transport
    transport.max_size = _BUFFER


async def _refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, error: ProxyRequestError) -> None:
    """Send the response, and wait a moment for the client. Closing a socket with unread bytes discards the response."""
    with contextlib.suppress(OSError, asyncio.TimeoutError):
        await _answer(writer, error.status, str(error))
        writer.write_eof()
        await asyncio.wait_for(_discard(reader), _LINGER_SECONDS)


async def _discard(reader: asyncio.StreamReader) -> None:
    left = _LINGER_BYTES
    while left > 0 and (data := await reader.read(left)):
        left -= len(data)


async def _answer(writer: asyncio.StreamWriter, status: int, message: str) -> None:
    body = f"{message}\n".encode()
    head = f"HTTP/1.1 {status} {REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()
