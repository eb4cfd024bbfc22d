"""Ranges of addresses that somebody wrote into a spec, as peers of a network policy. Pure.

They were written on purpose, so they may be private ones. A range that merely happens to contain the cloud's metadata
address loses it.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

_METADATA = ipaddress.ip_network("169.254.0.0/16")


def block_peer(block: Mapping[str, Any]) -> dict[str, Any]:
    """The range as a peer of a policy."""
    return {"ipBlock": _without_metadata(block)}


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
        if not _contains(whole, inside):
            yield f"{field}.except {text!r} does not lie inside {block['cidr']}: remove it"


def _without_metadata(block: Mapping[str, Any]) -> dict[str, Any]:
    excepted = list(block.get("except", ()))
    whole = ipaddress.ip_network(block["cidr"])
    wider = _contains(whole, _METADATA) and whole != _METADATA
    if wider and not any(_contains(ipaddress.ip_network(text), _METADATA) for text in excepted):
        excepted.append(str(_METADATA))
    return {"cidr": block["cidr"], **({"except": excepted} if excepted else {})}


def _contains(whole: ipaddress.IPv4Network | ipaddress.IPv6Network, part: object) -> bool:
    if isinstance(whole, ipaddress.IPv4Network) and isinstance(part, ipaddress.IPv4Network):
        return part.subnet_of(whole)
    if isinstance(whole, ipaddress.IPv6Network) and isinstance(part, ipaddress.IPv6Network):
        return part.subnet_of(whole)
    return False
