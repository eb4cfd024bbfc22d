"""Refuses requests of web pages at the endpoint of the bridge: a foreign `Origin`, or a foreign `Host`.

MCP requires the check of `Origin` (2025-06-18, Streamable HTTP, Security Warning). The check of `Host` stops DNS
rebinding: a page whose name leads to this server has the same origin as the server, but sends its own name as `Host`.
"""

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HOST_VARIABLE: Final = "FLEETWRIGHT_MCP_HOST"
"""The variable with the DNS name of the Service. Every shorter form of the name is accepted too."""
_LOCAL: Final = "localhost"
_SCHEMES: Final = frozenset({"http", "https"})


class HostCheck:
    """ASGI middleware that answers 403 to requests with a foreign `Origin` or `Host`."""

    def __init__(self, app: ASGIApp, *, listens_on: str, name: str = "") -> None:
        """
        Args:
            app: The endpoint.
            listens_on: The address on which the server listens. On a loopback address, only local names are accepted.
            name: The DNS name of the server. Without it, a server on another address accepts every `Host`, because it
                does not know its names.
        """
        self._app = app
        self._is_local = _is_loopback(listens_on)
        labels = name.lower().split(".") if name else []
        self._names = frozenset(".".join(labels[:count]) for count in range(1, len(labels) + 1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if problem := self._problem(hosts, origins):
            await PlainTextResponse(problem, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _problem(self, hosts: Sequence[str], origins: Sequence[str]) -> str:
        """Return why a request is refused; empty if it is accepted."""
        # HTTP/1.0 allows a request without Host. The HTTP server refuses a request with two.
        host = hosts[0] if hosts else ""
        if not self._is_own(host):
            return "The Host header is missing or names another server. Use the address of the McpServer.\n"
        if any(_place(origin) != host.lower() for origin in origins):
            return "Requests of web pages are not accepted. Send no Origin header.\n"
        return ""

    def _is_own(self, host: str) -> bool:
        name = _hostname(host)
        if self._is_local or name == _LOCAL:
            return _is_loopback(name)
        return not self._names or name in self._names or _is_address(name)


def _hostname(host: str) -> str:
    """Return the name or the address in a `Host` header in lower case; empty if the header is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """Return the host and the port of an `Origin` header; empty for an opaque origin."""
    scheme, _, place = origin.lower().partition("://")
    return place if scheme in _SCHEMES else ""


def _is_address(name: str) -> bool:
    # A page cannot rebind an address: a browser sends an address as Host only if the page's URL has it.
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == _LOCAL or (_is_address(name) and ip_address(name).is_loopback)
