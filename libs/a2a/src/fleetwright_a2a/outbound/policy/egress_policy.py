"""The policy for the agent's outgoing connections: hosts, ports and addresses. Pure.

A host that the configuration names may resolve to private addresses, as Services of the cluster do. No name except
`localhost` may resolve to loopback, link-local or cloud metadata addresses: the owner of a DNS zone controls the
addresses of a name. The configuration must contain such an address literally, or a range of only such addresses.
Everything that is not named is denied, unless all public addresses are allowed. Spellings that resolvers and libraries
interpret differently are rejected.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from fleetwright_a2a.outbound.policy.addresses import Ip, Network, embedded_ipv4, is_public, is_within, local_block

MAX_URL: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}
_USUAL: Final = frozenset(_PORTS.values())
_NUMBER: Final = re.compile("[0-9]+|0x[0-9a-f]*")
_HOST: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(\.(?!-)[a-z0-9_-]{1,63})*")
_LOCALHOST: Final = "localhost"


class UnusableUrl(ValueError):  # noqa: N818 - says what the URL is
    """The URL can never be called; the message says why."""


@dataclass(frozen=True, slots=True)
class EgressTarget:
    """The host and port of a URL, normalized: lower case, no trailing dot, addresses in canonical form."""

    host: str
    port: int

    @property
    def text(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def target_of(url: str) -> EgressTarget:
    """Return the host and port of a URL. Raises: UnusableUrl."""
    if len(url) > MAX_URL:
        raise UnusableUrl(f"it is longer than {MAX_URL} characters")
    if not url.isascii() or not url.isprintable() or any(sign in url for sign in ' \\"<>^`{|}'):
        raise UnusableUrl("it contains characters that a URL cannot have; percent-encode them")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UnusableUrl("it is not a URL") from None
    if parts.scheme not in _PORTS:
        raise UnusableUrl("it must begin with https:// or http://")
    if "@" in parts.netloc:
        raise UnusableUrl("it must not contain a user or password")
    return EgressTarget(canonical_host(parts.hostname or ""), port or _PORTS[parts.scheme])


def canonical_host(host: str) -> str:
    """Return the normalized host. Raises: UnusableUrl."""
    host = host.lower().removesuffix(".")
    if "%" in host:
        raise UnusableUrl("its host must not contain a percent sign")
    with suppress(ValueError):
        return str(ipaddress.ip_address(host))
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        raise UnusableUrl("its host ends in a number but is not an IPv4 address; use four decimal numbers, or a name")
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise UnusableUrl("it must name a host")
    return host


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The allowed targets and addresses.

    Args:
        hosts: The named targets.
        ranges: The addresses that are allowed on any port.
        everywhere: Allow all public addresses on ports 80 and 443.
        denied: Addresses that are denied although another rule allows them. Private addresses to which a named host
            resolves stay allowed: Services of the cluster have such addresses.
    """

    hosts: frozenset[EgressTarget] = frozenset()
    ranges: tuple[Network, ...] = ()
    everywhere: bool = False
    denied: tuple[Network, ...] = ()

    @classmethod
    def declared(cls, urls: Iterable[str], *, denied: tuple[Network, ...] = ()) -> Self:
        """Return a policy for the endpoints in the configuration: their hosts and ports only.

        Raises:
            UnusableUrl: One of the URLs can never be called.
        """
        return cls(hosts=frozenset(target_of(url) for url in urls), denied=denied)

    def wants_resolving(self, target: EgressTarget) -> bool:
        """Return whether the target is allowed for some addresses, so that its name must be resolved."""
        return self.everywhere or bool(self.ranges) or target in self.hosts

    def allows(self, target: EgressTarget, addresses: Sequence[Ip]) -> bool:
        """Return whether all addresses of the host are allowed; a single denied address denies the host."""
        return bool(addresses) and all(self._opens(target, ip) for ip in addresses)

    def allows_unresolved(self, target: EgressTarget) -> bool:
        """Return whether a proxy that resolves the name itself may be asked for the target.

        Only named targets are allowed. A host that is an address is checked like any other address.
        """
        with suppress(ValueError):
            return target in self.hosts and self._opens(target, ipaddress.ip_address(target.host))
        return target in self.hosts

    def _opens(self, target: EgressTarget, ip: Ip) -> bool:
        named = target in self.hosts
        block = local_block(ip)
        by_name = named and target.host != str(ip)
        if any(self._denies(each, by_name=by_name) for each in (ip, embedded_ipv4(ip)) if each is not None):
            return False
        if any(ip in each and (block is None or is_within(each, block)) for each in self.ranges):
            return True
        if block is not None:
            return named and (target.host == str(ip) or (target.host == _LOCALHOST and ip.is_loopback))
        return named or (self.everywhere and target.port in _USUAL and is_public(ip))

    def _denies(self, ip: Ip, *, by_name: bool) -> bool:
        return any(ip in each for each in self.denied) and (is_public(ip) or not by_name)
