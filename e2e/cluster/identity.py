"""The names and address ranges of a local cluster, derived from the checkout, so that two clusters can run side by
side.

Ranges that the machine already routes are not used. In that case the next free ranges are chosen and stored.
"""

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from e2e.cluster.progress import ClusterError

OCTETS = range(64, 192)


@dataclass(frozen=True)
class Identity:
    name: str
    octet: int

    def __post_init__(self) -> None:
        if self.octet not in OCTETS:
            raise ValueError(f"octet {self.octet} is not one of {OCTETS.start} to {OCTETS.stop - 1}")

    @property
    def everything(self) -> IPv4Network:
        return IPv4Network(f"10.{self.octet}.0.0/16")

    @property
    def host_address(self) -> str:
        return f"10.{self.octet}.0.1"

    @property
    def node_address(self) -> str:
        return f"10.{self.octet}.0.2"

    @property
    def services(self) -> str:
        return f"10.{self.octet}.128.0/18"

    @property
    def dns_address(self) -> str:
        return f"10.{self.octet}.128.10"

    @property
    def pods(self) -> str:
        return f"10.{self.octet}.64.0/18"

    @property
    def namespace(self) -> Path:
        return Path("/run/netns") / self.name

    @property
    def sockets(self) -> Path:
        """The folder of sockets.

        It is not in the checkout, because paths of Unix sockets have at most 107 characters.
        """
        return Path("/run/fleetwright") / self.name

    @property
    def data(self) -> Path:
        return Path("/var/lib/fleetwright") / self.name


def name_of(checkout: Path) -> str:
    return "fw-" + hashlib.sha256(str(checkout).encode()).hexdigest()[:6]


def derive(checkout: Path, taken: Callable[[IPv4Network], bool]) -> Identity:
    name = name_of(checkout)
    first = int(name.removeprefix("fw-"), 16) % len(OCTETS)
    for step in range(len(OCTETS)):
        identity = Identity(name, OCTETS[(first + step) % len(OCTETS)])
        if not taken(identity.everything):
            return identity
    raise ClusterError(f"every range from 10.{OCTETS.start}.0.0/16 to 10.{OCTETS.stop - 1}.0.0/16 is routed already")


def overlaps(routes: Iterable[str]) -> Callable[[IPv4Network], bool]:
    """Return a predicate: True if a range overlaps one of these destinations of `ip route`.

    Wide destinations, such as the 10.0.0.0/8 of a VPN, do not count, because the cluster's routes are more specific.
    """
    networks = [each for route in routes if route[0].isdigit() and (each := IPv4Network(route)).prefixlen >= 12]
    return lambda network: any(network.overlaps(other) for other in networks)


def remembered(file: Path, checkout: Path) -> Identity:
    """Return the identity that the file holds. Without a file, derive one and write it."""
    if file.exists():
        return Identity(name_of(checkout), int(file.read_text()))
    listed = subprocess.run(["ip", "-4", "-j", "route", "show", "table", "all"], capture_output=True, check=True)
    identity = derive(checkout, overlaps(route["dst"] for route in json.loads(listed.stdout) if "dst" in route))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(str(identity.octet))
    return identity
