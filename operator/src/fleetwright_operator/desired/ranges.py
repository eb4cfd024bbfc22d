"""Ranges of addresses that somebody wrote into a spec, as peers of a network policy. Pure.

They were written on purpose, so they may be private ones. A range that merely happens to contain addresses of the
cloud's metadata loses them.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_operator.address_space import METADATA, is_inside, missing


def block_peer(block: Mapping[str, Any]) -> dict[str, Any]:
    """The range as a peer of a policy."""
    excepted = [ipaddress.ip_network(text) for text in block.get("except", ())]
    less = [*block.get("except", ()), *map(str, missing(ipaddress.ip_network(block["cidr"]), excepted, METADATA))]
    return {"ipBlock": {"cidr": block["cidr"], **({"except": less} if less else {})}}


def block_problems(field: str, block: Mapping[str, Any]) -> Iterator[str]:
    """Why the API server would refuse this range."""
    try:
        whole = ipaddress.ip_network(block["cidr"])
    except ValueError:
        yield f"{field}.cidr {block['cidr']!r} is no range of addresses: write one such as 203.0.113.0/24"
        return
    for text in block.get("except", ()):
        try:
            inside = ipaddress.ip_network(text)
        except ValueError:
            yield f"{field}.except {text!r} is no range of addresses: write one such as 203.0.113.0/28"
            continue
        if not is_inside(inside, whole):
            yield f"{field}.except {text!r} does not lie inside {block['cidr']}: remove it"
