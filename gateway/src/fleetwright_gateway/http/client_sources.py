"""Finds the source of a request: the address by which the gateway limits unknown tokens. Pure.

Proxies name their callers in `X-Forwarded-For`, and each proxy appends the address from which it was called. The
gateway reads the header from the right. It trusts an entry only if a trusted proxy has written it, so that no caller
can choose its own source (RFC 7239, sections 7.1 and 8.1, about the standard form of this header).
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import islice
from typing import Final

from starlette.types import Scope

_HEADER: Final = b"x-forwarded-for"
_MOST_ENTRIES: Final = 32
"""The number of entries that are read. No real chain of proxies is longer, but a caller can send a longer header."""
_HOST_BITS: Final = 64
"""The bits of an IPv6 address that its host chooses itself. All addresses with one prefix are one source."""
_Address = IPv4Address | IPv6Address


class ClientSources:
    def __init__(self, proxies: Iterable[str] = ()) -> None:
        """Args: `proxies` are the networks of the trusted proxies in CIDR notation."""
        self._proxies = tuple(ip_network(each) for each in proxies)

    def source_of(self, scope: Scope) -> str | None:
        """Return the source of a request; None if a trusted proxy sent it without a usable address of the client.

        The header of a trusted proxy may be absent or malformed, or its last entries may all name trusted proxies. All
        callers of the proxy would then be one source and would share its limit, so the request has no source.
        """
        client = scope.get("client")
        host = str(client[0]) if client else ""
        address = _parsed(host)
        if address is None:
            return host
        if not self._is_proxy(address):
            return _prefix(address)
        for entry in islice(_entries_from_the_right(scope["headers"]), _MOST_ENTRIES):
            address = _parsed(_without_port(entry))
            if address is None:
                return None
            if not self._is_proxy(address):
                return _prefix(address)
        return None

    def _is_proxy(self, address: _Address) -> bool:
        return any(address in network for network in self._proxies)


def _entries_from_the_right(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    """Yield the entries of all headers `X-Forwarded-For`, which count as one list, from the last one to the first.

    The entries of one header after the first `_MOST_ENTRIES` are not split.
    """
    values = [value for name, value in headers if name.lower() == _HEADER]
    for value in reversed(values):
        for entry in reversed(value.rsplit(b",", _MOST_ENTRIES)):
            yield entry.decode("latin-1").strip()


def _without_port(entry: str) -> str:
    """Remove the port that some proxies append: `192.0.2.1:4711` or `[2001:db8::1]:4711`."""
    if entry.startswith("[") and "]" in entry:
        return entry[1:].partition("]")[0]
    host, _, port = entry.partition(":")
    return host if port.isdigit() and "." in host else entry


def _parsed(text: str) -> _Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    embedded = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return embedded or address


def _prefix(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return f"{IPv6Address(int(address) >> _HOST_BITS << _HOST_BITS)}/{_HOST_BITS}"
