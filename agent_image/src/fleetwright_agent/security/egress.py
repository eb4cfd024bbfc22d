"""The one policy for connections that the agent opens by itself: which host, which port, which addresses. Pure.

A name opens what may lie behind it in a cluster, private addresses among it, and never the machine itself, its link
or its cloud's metadata: whoever holds a name's zone could lead it there. Those only a range opens that holds nothing
else, or the address itself as it is written. Refuses: everything that was not named, except where all that is public
is allowed; spellings that resolvers and libraries read in ways of their own.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from fleetwright_agent.security.addresses import Ip, Network, carried_by, is_public, is_within, local_block

MAX_URL: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}
_USUAL: Final = frozenset(_PORTS.values())
_NUMBER: Final = re.compile("[0-9]+|0x[0-9a-f]*")
_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")
_LOCALHOST: Final = "localhost"


class UnusableUrl(ValueError):  # noqa: N818 - says what the URL is
    """The URL can never be called from here; the text says why, for whoever wrote it."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a URL leads, in one spelling: lower case, no trailing dot, addresses as they are usually written."""

    host: str
    port: int

    @property
    def text(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(url: str) -> Target:
    """Raises: UnusableUrl."""
    if len(url) > MAX_URL:
        raise UnusableUrl(f"it is longer than {MAX_URL} characters")
    if not url.isascii() or not url.isprintable() or any(sign in url for sign in ' \\"<>^`{|}'):
        raise UnusableUrl("it holds characters that no URL has; write them encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UnusableUrl("it is no URL") from None
    if parts.scheme not in _PORTS:
        raise UnusableUrl("it must begin with https:// or http://")
    if "@" in parts.netloc:
        raise UnusableUrl("it must hold no user or password")
    return Target(canonical_host(parts.hostname or ""), port or _PORTS[parts.scheme])


def canonical_host(host: str) -> str:
    """Raises: UnusableUrl."""
    host = host.lower().removesuffix(".")
    if "%" in host:
        raise UnusableUrl("its host must hold no percent sign")
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise UnusableUrl("its host ends in a number and is no address: write four decimal numbers, or a name")
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise UnusableUrl("it must name a host")
    return host


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Args: `everywhere` allows what is public on the usual ports of HTTP, without its being named.

    `denied` is what nothing opens. What a name opens of it is left to the network where it is private: Services of the
    cluster have such addresses, and whoever denies their range does not mean them.
    """

    hosts: frozenset[Target] = frozenset()
    ranges: tuple[Network, ...] = ()
    everywhere: bool = False
    denied: tuple[Network, ...] = ()

    @classmethod
    def declared(cls, urls: Iterable[str], *, denied: tuple[Network, ...] = ()) -> Self:
        """For edges that the configuration names: their hosts and ports, and nothing else.

        Raises:
            UnusableUrl: One can never be called.
        """
        return cls(hosts=frozenset(target_of(url) for url in urls), denied=denied)

    def wants_resolving(self, target: Target) -> bool:
        """Whether any address could make the target allowed."""
        return self.everywhere or bool(self.ranges) or target in self.hosts

    def allows(self, target: Target, addresses: Sequence[Ip]) -> bool:
        """Whether every address that the host has may be connected to; one that may not spoils the others."""
        return bool(addresses) and all(self._opens(target, ip) for ip in addresses)

    def _opens(self, target: Target, ip: Ip) -> bool:
        named = target in self.hosts
        block = local_block(ip)
        by_name = named and target.host != str(ip)
        if any(self._denies(each, by_name=by_name) for each in (ip, carried_by(ip)) if each is not None):
            return False
        if any(ip in each and (block is None or is_within(each, block)) for each in self.ranges):
            return True
        if block is not None:
            return named and (target.host == str(ip) or (target.host == _LOCALHOST and ip.is_loopback))
        return named or (self.everywhere and target.port in _USUAL and is_public(ip))

    def _denies(self, ip: Ip, *, by_name: bool) -> bool:
        return any(ip in each for each in self.denied) and (is_public(ip) or not by_name)
