"""Checks of the URLs in a spec: a pod must be able to use the URL, and the address must resolve. Pure."""

from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from fleetwright_api.spec.custom_object import CustomObject
from fleetwright_api.violation import Violation
from fleetwright_operator.build.network.addresses import HostAddress, UnusableAddress, destination, parse_address
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.build.workspace.egress_hosts import host_addresses, host_urls
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings


def address_problems(field: str, url: str, holder: CustomObject, settings: Settings) -> Iterator[Violation]:
    try:
        parse_address(url, namespace=holder.namespace, settings=settings)
    except UnusableAddress as error:
        yield Violation("InvalidAddress", f"{field}: {error}")


def resolution_problems(
    field: str, address: HostAddress, services: Services, settings: Settings
) -> Iterator[Violation]:
    found = destination(address, services, settings)
    if isinstance(found, str):
        yield Violation("ServiceNotFound", f"{field} names {address.host}: {found}")


def workspace_hosts_are_usable(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, url in host_urls(observed.agent):
        yield from address_problems(field, url, observed.agent, settings)
    for field, address in host_addresses(observed.agent, settings):
        if address.ip is not None:
            yield Violation("InvalidAddress", f"{field}: {address.ip} is not a name; write to.ipBlock instead")


def is_local_to_reader(url: str) -> bool:
    """Return whether the URL points at the machine of its reader, such as localhost."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return True  # An invalid URL has no usable host.
    try:
        address = ip_address(host)
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
