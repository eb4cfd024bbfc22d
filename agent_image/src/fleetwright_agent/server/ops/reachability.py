"""Reachability of the agent's MCP servers: periodic TCP connection attempts, without any MCP message.

For a server behind a proxy, the attempt is a connection to the proxy, because the agent may connect to nothing else.
The operator never connects to addresses from a spec, but uses this report for the status of an MCP server. There is at
most one short connection for each server at a time. The report does not contain IP addresses.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from fleetwright_a2a.lazy_import import import_in_thread
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget, UnusableUrl, target_of
from fleetwright_agent.config.tools import McpServer

_CONNECT_SECONDS: Final = 5.0
_WHILE_WELL_SECONDS: Final = 60.0
_WHILE_ILL_SECONDS: Final = 10.0

Connect = Callable[[str, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ServerReachability:
    """The result of the last attempt for one server. `message` explains why the server is not reachable."""

    name: str
    reachable: bool
    message: str


async def _connect(host: str, port: int, denied: tuple[Network, ...] = ()) -> None:
    """Open and close a connection.

    Raises:
        PermissionError: The name resolves to an address that this agent may not reach.
        OSError: The connection failed.
    """
    # Imported here: the import is slow, and the start of the server must not wait for it.
    await import_in_thread("fleetwright_a2a.outbound.pinned_http")
    from fleetwright_a2a.outbound.pinned_http import DeniedAddress, allowed_addresses, resolve

    target = EgressTarget(host, port)
    try:
        addresses = await allowed_addresses(EgressPolicy(hosts=frozenset({target}), denied=denied), target, resolve)
    except DeniedAddress as error:
        raise PermissionError(str(error)) from None
    _, writer = await asyncio.open_connection(str(addresses[0]), port)
    writer.close()


class Reachability:
    """Periodic checks of all servers. `report` is empty until the first round is complete."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        denied: tuple[Network, ...] = (),
        connect: Connect | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._servers = tuple(servers)
        self._connect = connect or partial(_connect, denied=denied)
        self._sleep = sleep
        self._report: tuple[ServerReachability, ...] = ()

    @property
    def report(self) -> tuple[ServerReachability, ...]:
        return self._report

    async def watch(self) -> None:
        """Check all servers periodically, until the task is cancelled."""
        while self._servers:
            reasons = await asyncio.gather(*(self._describe_failure(server) for server in self._servers))
            looked = zip(self._servers, reasons, strict=True)
            self._report = tuple(
                ServerReachability(server.name, reason is None, reason or "") for server, reason in looked
            )
            well = all(look.reachable for look in self._report)
            await self._sleep(_WHILE_WELL_SECONDS if well else _WHILE_ILL_SECONDS)

    async def _describe_failure(self, server: McpServer) -> str | None:
        reason = await self._try_connection(server)
        return reason if reason is None or server.proxy_url is None else f"its proxy: {reason}"

    async def _try_connection(self, server: McpServer) -> str | None:
        try:
            target = target_of(server.proxy_url or server.url)
            async with asyncio.timeout(_CONNECT_SECONDS):
                await self._connect(target.host, target.port)
        except UnusableUrl as error:
            return f"its address cannot be called: {error}"
        except TimeoutError:
            return f"no connection within {_CONNECT_SECONDS:.0f} s"
        except socket.gaierror:
            return "its host name is not known"
        except PermissionError:
            return "its name leads to an address that agents may not reach"
        except OSError:
            return "connection refused"
        return None
