"""Checks of an Agent's workspace. Pure."""

from collections.abc import Iterator

from fleetwright_api.violation import Violation
from fleetwright_operator.build.workspace.egress_hosts import host_addresses, host_urls
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import address_problems


def workspace_hosts_are_usable(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for field, url in host_urls(observed.agent):
        yield from address_problems(field, url, observed.agent, settings)
    for field, address in host_addresses(observed.agent, settings):
        if address.ip is not None:
            yield Violation("InvalidAddress", f"{field}: {address.ip} is not a name; write to.ipBlock instead")
