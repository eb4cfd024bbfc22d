"""IP ranges from a spec as peers of a network policy. Pure.

Explicit ranges may be private. Addresses of the cloud's metadata services and ranges that the installation denies are
excluded from wider ranges.
"""

import ipaddress
from collections.abc import Container, Iterator, Sequence
from typing import Any

from fleetwright_api.address_space import (
    METADATA,
    Ip,
    Network,
    contains,
    embedded_ipv4,
    is_inside,
    uncovered_networks,
)
from fleetwright_api.spec.network import IpBlock


def block_peer(block: IpBlock, *, denied: Sequence[Network] = ()) -> dict[str, Any]:
    """Return the range as a peer of a policy."""
    whole = ipaddress.ip_network(block.cidr)
    excepted = [ipaddress.ip_network(text) for text in block.except_]
    less = [*block.except_, *map(str, uncovered_networks(whole, excepted, [*METADATA, *denied]))]
    return {"ipBlock": {"cidr": block.cidr, **({"except": less} if less else {})}}


def block_problems(
    field: str, block: IpBlock, *, denied: Sequence[Network] = (), closed: Container[Ip] = ()
) -> Iterator[str]:
    """Yield the reasons why the API server or this installation would reject this range.

    Args: `closed` are addresses of the API server. A range that consists of one such address is rejected; a wider range
    may contain it.
    """
    try:
        whole = ipaddress.ip_network(block.cidr)
    except ValueError:
        yield f"{field}.cidr {block.cidr!r} is not an IP range; write one such as 203.0.113.0/24"
        return
    if found := next((network for network in denied if contains(network, whole)), None):
        yield f"{field}.cidr {block.cidr} is in {found}, which no agent of this installation may reach; remove it"
    if whole.num_addresses == 1 and embedded_ipv4(whole.network_address) in closed:
        forbidden = "which no agent of this installation may reach; remove it"
        yield f"{field}.cidr {block.cidr} is the API server, {forbidden}"
    for text in block.except_:
        try:
            inside = ipaddress.ip_network(text)
        except ValueError:
            yield f"{field}.except {text!r} is not an IP range; write one such as 203.0.113.0/28"
            continue
        if not is_inside(inside, whole):
            yield f"{field}.except {text!r} is not inside {block.cidr}; remove it"
