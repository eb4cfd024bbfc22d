"""What can be wrong with a URL in a spec, told under its field: no pod can use it, or it leads nowhere. Pure."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from fleetwright_operator.api.violation import Violation
from fleetwright_operator.build.network.addresses import Address, UnusableAddress, destination, parse_address
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.settings import Settings


def usable(field: str, url: str, holder: Mapping[str, Any], settings: Settings) -> Iterator[Violation]:
    try:
        parse_address(url, namespace=holder["metadata"]["namespace"], settings=settings)
    except UnusableAddress as error:
        yield Violation("InvalidAddress", f"{field}: {error}")


def resolves(field: str, address: Address, services: Services, settings: Settings) -> Iterator[Violation]:
    found = destination(address, services, settings)
    if isinstance(found, str):
        yield Violation("ServiceNotFound", f"{field} names {address.host}: {found}")


def means_its_reader(url: str) -> bool:
    """Whether the address leads everybody to their own machine."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return True  # It leads nowhere else.
    try:
        address = ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
