"""HTTP connections restricted by an egress policy.

Each connection resolves its name once, and connects to an address that the policy has checked. TLS verification, the
Host header and the connection pool use the original name. Environment variables are ignored, and redirects are not
followed. The policy itself is in `egress_policy`.

Through a proxy, only the address of the proxy can be checked in this way, because the proxy resolves the names of the
targets. The policy then limits the targets by their names.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache, partial
from typing import Final
from urllib.parse import urlsplit

import httpcore
import httpx

from fleetwright_a2a.outbound.policy.addresses import Ip
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget, UnusableUrl, canonical_host

Resolve = Callable[[str, int], Awaitable[Sequence[Ip]]]
"""Resolves a name. Raises: OSError: the name is unknown, or the lookup failed."""


class DeniedAddress(httpx.ConnectError):
    """The policy does not allow this connection; no data was sent. A retry cannot succeed."""


_PORTS: Final = {"http": 80, "https": 443}
_CONNECTIONS: Final = 100
_IDLE_CONNECTIONS: Final = 20
_IDLE_SECONDS: Final = 5.0
_THREADS: Final = ThreadPoolExecutor(16, thread_name_prefix="lookup")
"""The system's resolver blocks a thread for each lookup. A separate pool keeps the default thread pool free."""


async def resolve(host: str, port: int, *, threads: Executor = _THREADS) -> list[Ip]:
    """Return all addresses of the name from the system's resolver."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(threads, ask)
    # Drop the scope id: an address that needs one is link-local, and the policy rejects it anyway.
    return [ipaddress.ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


async def allowed_addresses(policy: EgressPolicy, target: EgressTarget, resolving: Resolve) -> Sequence[Ip]:
    """Raises: DeniedAddress, OSError."""
    if not policy.wants_resolving(target):
        raise DeniedAddress(f"{target.text} is not an address that this agent may reach")
    written = _address(target.host)
    addresses = [written] if written else list(dict.fromkeys(await resolving(target.host, target.port)))
    if not policy.allows(target, addresses):
        raise DeniedAddress(f"{target.text} does not lead to an address that this agent may reach")
    return addresses


def _address(host: str) -> Ip | None:
    """Return the host as an IP address, or None if the host is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class _PinnedBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, policy: EgressPolicy, resolving: Resolve) -> None:
        self._policy = policy
        self._resolving = resolving
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                target = EgressTarget(canonical_host(host), port)
                addresses = await allowed_addresses(self._policy, target, self._resolving)
                return await self._first_that_answers(addresses, port, local_address, socket_options)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except UnusableUrl as error:
            raise DeniedAddress(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error

    async def _first_that_answers(
        self,
        addresses: Sequence[Ip],
        port: int,
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        failure: httpcore.ConnectError | None = None
        for ip in addresses:
            try:
                return await self._inner.connect_tcp(
                    str(ip), port, local_address=local_address, socket_options=socket_options
                )
            except httpcore.ConnectError as error:
                failure = error
        raise failure or httpcore.ConnectError("the name has no address")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class PinnedTransport(httpx.AsyncHTTPTransport):
    """A transport that only connects to addresses that the policy allows."""

    def __init__(
        self, policy: EgressPolicy, *, verify: ssl.SSLContext | None = None, resolving: Resolve = resolve
    ) -> None:
        context = verify or default_authorities()
        super().__init__(verify=context, trust_env=False)
        # httpx has no parameter for a network backend; only the pool takes one.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_PinnedBackend(policy, resolving),
        )


class ProxiedTransport(httpx.AsyncHTTPTransport):
    """A transport that connects only to an HTTP proxy, and asks it only for targets that the policy names.

    Requests to an https URL use a tunnel (RFC 9110 §9.3.6), so the proxy sees only the host and the port.
    """

    def __init__(
        self, policy: EgressPolicy, *, proxy: str, verify: ssl.SSLContext | None = None, resolving: Resolve = resolve
    ) -> None:
        """
        Args:
            policy: The allowed targets. Its denied ranges also apply to the address of the proxy.
            proxy: The URL of the proxy.
            verify: The trusted authorities of the targets and of a proxy with an https URL.
            resolving: Resolves the name of the proxy.

        Raises:
            UnusableUrl: The URL of the proxy can never be called.
        """
        context = verify or default_authorities()
        super().__init__(verify=context, trust_env=False)
        self._policy = policy
        self._pool = httpcore.AsyncHTTPProxy(
            proxy_url=proxy,
            ssl_context=context,
            proxy_ssl_context=context if urlsplit(proxy).scheme == "https" else None,
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=_PinnedBackend(EgressPolicy.declared([proxy], denied=policy.denied), resolving),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Raises: DeniedAddress: the policy does not name the target."""
        url = request.url
        try:
            target = EgressTarget(canonical_host(url.raw_host.decode("ascii")), url.port or _PORTS[url.scheme])
        except UnusableUrl as error:
            raise DeniedAddress(str(error)) from error
        if not self._policy.allows_unresolved(target):
            raise DeniedAddress(f"{target.text} is not an address that this agent may reach")
        return await super().handle_async_request(request)


@cache
def default_authorities() -> ssl.SSLContext:
    """Return the default TLS trust store, loaded once because that takes tens of milliseconds.

    The shared context must not be changed. Code that trusts other authorities creates its own context.
    """
    return httpx.create_ssl_context(trust_env=False)
