"""Ranges of addresses that somebody wrote into a spec, as peers of a network policy. Pure.

They were written on purpose, so they may be private ones. A range that merely happens to contain addresses of the
cloud's metadata, or what the installation denies to every agent, loses them.
"""

import ipaddress
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from fleetwright_operator.api.address_space import METADATA, Ip, Network, contains, embedded, is_inside, missing


def block_peer(block: Mapping[str, Any], *, denied: Sequence[Network] = ()) -> dict[str, Any]:
    """The range as a peer of a policy."""
    whole = ipaddress.ip_network(block["cidr"])
    excepted = [ipaddress.ip_network(text) for text in block.get("except", ())]
    less = [*block.get("except", ()), *map(str, missing(whole, excepted, [*METADATA, *denied]))]
    return {"ipBlock": {"cidr": block["cidr"], **({"except": less} if less else {})}}


def block_problems(
    field: str, block: Mapping[str, Any], *, denied: Sequence[Network] = (), closed: Container[Ip] = ()
) -> Iterator[str]:
    """Why the API server or this installation would refuse this range. `closed` are addresses of the API server itself:
    one alone is named on purpose, while a wide range may hold it without meaning it.
    """
    try:
        whole = ipaddress.ip_network(block["cidr"])
    except ValueError:
        yield f"{field}.cidr {block['cidr']!r} is no range of addresses: write one such as 203.0.113.0/24"
        return
    if found := next((network for network in denied if contains(network, whole)), None):
        yield f"{field}.cidr {block['cidr']} lies in {found}, which no agent of this installation may reach: remove it"
    if whole.num_addresses == 1 and embedded(whole.network_address) in closed:
        forbidden = "which no agent of this installation may reach: remove it"
        yield f"{field}.cidr {block['cidr']} is the API server, {forbidden}"
    for text in block.get("except", ()):
        try:
            inside = ipaddress.ip_network(text)
        except ValueError:
            yield f"{field}.except {text!r} is no range of addresses: write one such as 203.0.113.0/28"
            continue
        if not is_inside(inside, whole):
            yield f"{field}.except {text!r} does not lie inside {block['cidr']}: remove it"
